/** Parts of IP addresses. */
import { isIPv6, SocketAddress } from 'node:net';

/**
 * The network that a client's address stands for: an IPv4 address itself, also mapped into IPv6 (`::ffff:1.2.3.4`), and
 * the first 64 bits of an IPv6 address, because one machine can have all addresses below them.
 */
export function networkOf(address: string): string {
  const [plain = ''] = address.replace(/^::ffff:(?=\d+\.)/, '').split('%');
  if (!isIPv6(plain)) return plain;
  return `${groupsOf(plain)
    .slice(0, 4)
    .map((group) => group.toString(16))
    .join(':')}::/64`;
}

/** The IPv4 address that begins at `group`. SocketAddress formats like inet_ntop, possibly with dotted decimals. */
export function ipv4At(address: string, group: number): string {
  const groups = groupsOf(address);
  return [groups[group] ?? 0, groups[group + 1] ?? 0].flatMap((value) => [value >> 8, value & 255]).join('.');
}

function groupsOf(address: string): number[] {
  const plain = new SocketAddress({ address, family: 'ipv6' }).address.replace(/\d{1,3}(?:\.\d{1,3}){3}$/, (dotted) => {
    const [a = 0, b = 0, c = 0, d = 0] = dotted.split('.').map(Number);
    return `${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`;
  });
  const [head = '', tail] = plain.split('::');
  const parse = (part: string): number[] => (part === '' ? [] : part.split(':').map((value) => parseInt(value, 16)));
  const before = parse(head);
  if (tail === undefined) return before;
  const after = parse(tail);
  return [...before, ...Array<number>(8 - before.length - after.length).fill(0), ...after];
}

/**
 * Restricts which machines a request may reach: protects against server-side request forgery (SSRF), where endpoints
 * or redirects lead to this machine or its networks.
 *
 * Every address has one kind. For an IPv6 address that contains an IPv4 address (mapped, NAT64, 6to4) the IPv4 address
 * decides, because packets end there. Names are resolved here, all their addresses are checked, and the connection
 * uses exactly those: there is no second DNS lookup (DNS rebinding).
 */
import { lookup as dnsLookup, type LookupAddress } from 'node:dns';
import { BlockList, isIP, type LookupFunction } from 'node:net';
import { ipv4At } from './ip-address.ts';

export type AddressKind = 'public' | 'loopback' | 'private' | 'forbidden';

/** Kinds of addresses to which connections are allowed. */
export type Reach = ReadonlySet<AddressKind>;

const listOf = (subnets: readonly string[]): BlockList => {
  const list = new BlockList();
  for (const subnet of subnets) {
    const [address = '', prefix] = subnet.split('/');
    list.addSubnet(address, Number(prefix), isIP(address) === 6 ? 'ipv6' : 'ipv4');
  }
  return list;
};

/**
 * Never allowed, whatever the config says: cloud metadata services, which hand out credentials (AWS, Azure, Alibaba,
 * Oracle), link-local, unspecified, multicast and reserved addresses.
 */
const FORBIDDEN = listOf([
  '169.254.0.0/16',
  '168.63.129.16/32',
  '100.100.100.200/32',
  '192.0.0.192/32',
  '0.0.0.0/8',
  '224.0.0.0/4',
  '240.0.0.0/4',
  'fd00:ec2::254/128',
  'fd20:ce::254/128',
  'fe80::/10',
  'ff00::/8',
  '::/96',
]);
const LOOPBACK = listOf(['127.0.0.0/8', '::1/128']);
/** RFC 1918, CGNAT, unique local, and ranges reserved for documentation, benchmarks and old tunnels. */
const PRIVATE = listOf([
  '10.0.0.0/8',
  '172.16.0.0/12',
  '192.168.0.0/16',
  '100.64.0.0/10',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  'fc00::/7',
  'fec0::/10',
  '64:ff9b:1::/48',
  '100::/64',
  '2001::/23',
  '2001:db8::/32',
]);
const METADATA_NAMES = new Set([
  'metadata',
  'metadata.google.internal',
  'metadata.goog',
  'metadata.azure.internal',
  'metadata.tencentyun.com',
  'instance-data',
  'instance-data.ec2.internal',
]);

/** IPv4 inside IPv6: the prefix, and the 16-bit group at which the IPv4 address begins. */
const CARRIERS = [
  { prefix: listOf(['::ffff:0:0/96', '64:ff9b::/96']), group: 6 },
  { prefix: listOf(['2002::/16']), group: 1 },
] as const;

/** `address`: IPv4 in dotted decimals, or IPv6. An address with a zone is link-local. */
export function kindOf(address: string): AddressKind {
  if (isIP(address) === 0 || address.includes('%')) return 'forbidden';
  const family = isIP(address) === 6 ? 'ipv6' : 'ipv4';
  if (family === 'ipv6') {
    const carrier = CARRIERS.find(({ prefix }) => prefix.check(address, 'ipv6'));
    if (carrier !== undefined) return kindOf(ipv4At(address, carrier.group));
  }
  if (LOOPBACK.check(address, family)) return 'loopback';
  if (FORBIDDEN.check(address, family)) return 'forbidden';
  return PRIVATE.check(address, family) ? 'private' : 'public';
}

/**
 * Kind of a URL's host, if known without DNS; null: a name that must be resolved. The URL class has normalized all
 * address notations (decimal, octal, hex, short).
 */
export function kindOfHost(hostname: string): AddressKind | null {
  const host = hostname.replace(/^\[|\]$/g, '');
  if (isIP(host) !== 0) return kindOf(host);
  const name = host.toLowerCase().replace(/\.$/, '');
  if (METADATA_NAMES.has(name)) return 'forbidden';
  return name === 'localhost' || name.endsWith('.localhost') ? 'loopback' : null;
}

/** Creates the error for a refused host. */
export type Refuse = (hostname: string, kind: AddressKind) => Error;

/** Throws `refuse()` if the host is outside `reach`. */
export function checkHost(hostname: string, reach: Reach, refuse: Refuse): void {
  const kind = kindOfHost(hostname);
  if (kind !== null && !reach.has(kind)) throw refuse(hostname, kind);
}

/** A lookup function that fails for names with any address outside `reach`. */
export function guardedLookup(reach: Reach, refuse: Refuse, lookup: typeof dnsLookup = dnsLookup): LookupFunction {
  return (hostname, options, done) => {
    lookup(hostname, { ...options, all: true }, (error, addresses) => {
      if (error !== null) {
        done(error, '');
        return;
      }
      const wrong = addresses.map(({ address }) => kindOf(address)).find((kind) => !reach.has(kind));
      if (wrong !== undefined) done(refuse(hostname, wrong), '');
      else if (options.all === true) done(null, addresses);
      else {
        const [first = { address: '', family: 4 }] = addresses as readonly LookupAddress[];
        done(null, first.address, first.family);
      }
    });
  };
}

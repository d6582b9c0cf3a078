/** The TCP listeners: where they may bind, and their errors when they cannot. */
import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import { BlockList, isIPv6, type AddressInfo, type ListenOptions, type Server } from 'node:net';
import { variable, type Variable } from '../process/environment.ts';
import { holderOfPort } from '../process/port-holder.ts';
import { SvcError } from '../protocol/errors.ts';

export type ListenerName = 'http' | 'grpc' | 'ollama';

interface Words {
  /** The beginning of an error. */
  readonly failure: string;
  /** The setting with the host. */
  readonly setting: string;
  /** Command that makes svc listen on this machine only. */
  readonly local: string;
  /** How another port is chosen. `host`: as in an address. */
  another(host: string, port: number): string;
}

const WORDS: Readonly<Record<ListenerName, Words>> = {
  http: wordsOf('cannot listen for HTTP', 'http', 'SVC_HTTP_ADDR', 7117),
  grpc: wordsOf('cannot listen for gRPC', 'grpc', 'SVC_GRPC_ADDR', 7118),
  ollama: {
    failure: "cannot listen for Ollama's clients",
    setting: 'ollama.listen',
    local: 'svc config set ollama.listen 127.0.0.1:11434',
    another: (host, port) => {
      const setting = `choose another port: svc config set ollama.listen ${host}:${String(besides(port))}`;
      return port === 11_434 ? `${setting}, or stop that program: 11434 is the port of Ollama itself` : setting;
    },
  },
};

function wordsOf(failure: string, section: string, name: Variable, port: number): Words {
  return {
    failure,
    setting: `${section}.host`,
    local: `${name}=127.0.0.1:${String(port)} svc start`,
    another: (host, taken) =>
      variable(name) === undefined
        ? `choose another port: svc config set ${section}.port ${String(besides(taken))}`
        : `choose another port in ${name}: ${name}=${host}:${String(besides(taken))}`,
  };
}

/** A port to propose instead of one that is taken, or that only root may use. */
function besides(port: number): number {
  if (port < 1024) return port + 8000;
  return port + 10 > 65_535 ? port - 10 : port + 10;
}

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet('127.0.0.0', 8, 'ipv4');
LOOPBACK.addAddress('::1', 'ipv6');

/** True if only this machine can reach `address`. */
export function isLoopback(address: string): boolean {
  return LOOPBACK.check(address, isIPv6(address) ? 'ipv6' : 'ipv4');
}

/**
 * Binds `server`; resolves with `host:port` as bound. An address that other machines can reach is bound only when
 * there are API keys. `inherited` is the descriptor of a socket that a service manager has bound.
 */
export async function listen(
  server: Server,
  name: ListenerName,
  { host, port }: { readonly host: string; readonly port: number },
  hasKeys: boolean,
  inherited?: number,
): Promise<string> {
  if (inherited !== undefined) return await listenOnInherited(server, name, inherited, hasKeys);
  const { address } = await resolve(name, host);
  if (!hasKeys && !isLoopback(address)) {
    throw open(`${WORDS[name].setting} ${host}`, `listen on this machine only: \`${WORDS[name].local}\``);
  }
  await bind(server, { port, host: address }, name, formatAddress(address, port));
  return formatAddress(address, (server.address() as AddressInfo).port);
}

async function listenOnInherited(server: Server, name: ListenerName, fd: number, hasKeys: boolean): Promise<string> {
  await bind(server, { fd }, name, `descriptor ${String(fd)}`);
  const { address, port } = server.address() as AddressInfo;
  if (!hasKeys && !isLoopback(address)) {
    throw open(`the inherited socket ${address}`, 'bind the socket to 127.0.0.1 or [::1]');
  }
  return formatAddress(address, port);
}

async function bind(
  server: Server,
  where: ListenOptions | { fd: number },
  name: ListenerName,
  shown: string,
): Promise<void> {
  try {
    const bound = once(server, 'listening');
    server.listen(where);
    await bound;
  } catch (error) {
    throw cannotBind(error, name, shown);
  }
}

function open(what: string, instead: string): SvcError {
  return new SvcError('CONFIG_INVALID', `${what} is reachable from other machines, but there is no API key`, {
    hint: `create a key: \`svc key add NAME\`; or ${instead}`,
  });
}

function formatAddress(address: string, port: number): string {
  return `${isIPv6(address) ? `[${address}]` : address}:${String(port)}`;
}

async function resolve(name: ListenerName, host: string): Promise<{ address: string; family: number }> {
  try {
    return await lookup(host);
  } catch (error) {
    throw new SvcError('CONFIG_INVALID', `${WORDS[name].setting} ${host} cannot be resolved`, {
      hint: `set ${WORDS[name].setting} to 127.0.0.1 or ::1`,
      cause: error,
    });
  }
}

/** `shown`: the address, or the descriptor of an inherited socket. */
function cannotBind(error: unknown, name: ListenerName, shown: string): SvcError {
  const { code, message } = error as NodeJS.ErrnoException;
  const why =
    code === 'EADDRINUSE'
      ? `: another program listens on ${shown}`
      : code === 'EACCES'
        ? `: no permission to listen on ${shown}`
        : ` on ${shown}: ${message}`;
  return new SvcError('CONFIG_INVALID', WORDS[name].failure + why, {
    hint: whatToDo(code, name, shown),
    cause: error,
  });
}

function whatToDo(code: string | undefined, name: ListenerName, shown: string): string {
  const { another, local } = WORDS[name];
  const [, host = '', port] = /^(.*):(\d+)$/.exec(shown) ?? [];
  if (port === undefined) return 'check the socket that the service manager hands to svc';
  if (code === 'EACCES') return another(host, Number(port));
  if (code !== 'EADDRINUSE') return `listen on an address of this machine: ${local}`;
  const holder = holderOfPort(Number(port)) ?? 'perhaps the svc of another user';
  return `it is ${holder}; ${another(host, Number(port))}`;
}

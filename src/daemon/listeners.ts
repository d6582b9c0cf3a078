/** The TCP listener: where it may bind, and what it says when it can't. */
import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import { BlockList, isIPv6, type AddressInfo, type Server } from 'node:net';
import { SvcError } from '../protocol/errors.ts';

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet('127.0.0.0', 8, 'ipv4');
LOOPBACK.addAddress('::1', 'ipv6');

/**
 * Resolves with `host:port` as bound. Only a loopback address is bound: there are no API keys yet
 * that would keep others out. `inherited` is the descriptor of a socket that is bound already.
 */
export async function listenOnLoopback(
  server: Server,
  host: string,
  port: number,
  inherited?: number,
): Promise<string> {
  if (inherited !== undefined) return await listenOnInherited(server, inherited);
  const { address, family } = await resolve(host);
  if (!LOOPBACK.check(address, family === 6 ? 'ipv6' : 'ipv4')) {
    throw new SvcError(
      'CONFIG_INVALID',
      `http.host ${host} can be reached by other machines, and no API key keeps them out`,
      {
        hint: 'set http.host to 127.0.0.1 or ::1',
      },
    );
  }
  try {
    const bound = once(server, 'listening');
    server.listen(port, address);
    await bound;
  } catch (error) {
    throw cannotBind(error, formatAddress(address, port));
  }
  return formatAddress(address, (server.address() as AddressInfo).port);
}

async function listenOnInherited(server: Server, fd: number): Promise<string> {
  try {
    const bound = once(server, 'listening');
    server.listen({ fd });
    await bound;
  } catch (error) {
    throw cannotBind(error, `descriptor ${String(fd)}`);
  }
  const { address, port } = server.address() as AddressInfo;
  if (!LOOPBACK.check(address, isIPv6(address) ? 'ipv6' : 'ipv4')) {
    throw new SvcError(
      'CONFIG_INVALID',
      `the socket that was passed on, ${address}, can be reached by other machines`,
      {
        hint: 'let it listen on 127.0.0.1 or [::1]',
      },
    );
  }
  return formatAddress(address, port);
}

function formatAddress(address: string, port: number): string {
  return `${isIPv6(address) ? `[${address}]` : address}:${String(port)}`;
}

async function resolve(host: string): Promise<{ address: string; family: number }> {
  try {
    return await lookup(host);
  } catch (error) {
    throw new SvcError('CONFIG_INVALID', `http.host ${host} is no address of this machine`, {
      hint: 'set http.host to 127.0.0.1 or ::1',
      cause: error,
    });
  }
}

function cannotBind(error: unknown, address: string): SvcError {
  const { code, message } = error as NodeJS.ErrnoException;
  const elsewhere = 'choose another: http.port in the config, or SVC_HTTP_ADDR=127.0.0.1:0 for any free port';
  if (code === 'EADDRINUSE') {
    return new SvcError('CONFIG_INVALID', `another program listens on ${address}`, { hint: elsewhere, cause: error });
  }
  if (code === 'EACCES') {
    return new SvcError('CONFIG_INVALID', `${address} is reserved for the system`, { hint: elsewhere, cause: error });
  }
  return new SvcError('CONFIG_INVALID', `cannot listen on ${address}: ${message}`, { hint: elsewhere, cause: error });
}

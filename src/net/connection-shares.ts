/**
 * Divides a listener's connections between addresses: one address may hold three quarters of them, so that no single
 * client keeps all others out.
 */
import type { Server, Socket } from 'node:net';
import { networkOf } from './ip-address.ts';

/** Connections that one address may hold of `most`. */
export function mostOfOneAddress(most: number): number {
  return Math.ceil((most * 3) / 4);
}

/** Limits the connections of `server`, in all and per address; those beyond a limit are closed at once. */
export function shareConnections(server: Server, most: number): void {
  const mostOfOne = mostOfOneAddress(most);
  const held = new Map<string, number>();
  server.maxConnections = most;
  server.on('connection', (socket: Socket) => {
    const { remoteAddress } = socket;
    // Without an address the client is gone already.
    if (remoteAddress === undefined) return;
    const network = networkOf(remoteAddress);
    const count = (held.get(network) ?? 0) + 1;
    if (count > mostOfOne) {
      socket.destroy();
      return;
    }
    held.set(network, count);
    socket.once('close', () => {
      const left = (held.get(network) ?? 1) - 1;
      if (left > 0) held.set(network, left);
      else held.delete(network);
    });
  });
}

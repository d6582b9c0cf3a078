/**
 * Divides a listener's connections between addresses: one address may hold three quarters of them, so that no single
 * client keeps all others out.
 */
import type { Server, Socket } from 'node:net';
import { networkOf } from './ip-address.ts';
import { Shares } from './shares.ts';

/** Limits the connections of `server`, in all and per address; those beyond a limit are closed at once. */
export function shareConnections(server: Server, most: number): void {
  const shares = new Shares(most);
  server.maxConnections = most;
  server.on('connection', (socket: Socket) => {
    const { remoteAddress } = socket;
    // Without an address the client is gone already.
    if (remoteAddress === undefined) return;
    const network = networkOf(remoteAddress);
    if (shares.take(network)) socket.once('close', () => shares.giveBack(network));
    else socket.destroy();
  });
}

/** A server on a Unix socket with a handler given by the test. */
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface UnixServer {
  readonly socketPath: string;
  close(): Promise<void>;
}

export async function serveOnSocket(
  handler: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<UnixServer> {
  const dir = await mkdtemp(join(tmpdir(), 'svc-c-'));
  const socketPath = join(dir, 's');
  const server = createServer(handler).listen(socketPath);
  await once(server, 'listening');
  return {
    socketPath,
    close: async () => {
      server.closeAllConnections();
      server.close();
      await rm(dir, { recursive: true });
    },
  };
}

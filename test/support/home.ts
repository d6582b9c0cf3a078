/** A home of its own for each daemon under test: nothing of the user's is read or written. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface Home {
  readonly dir: string;
  /** What to add to the environment of a process so that it lives here; HTTP and gRPC take any free port. */
  readonly env: { readonly SVC_HOME: string; readonly SVC_HTTP_ADDR: string; readonly SVC_GRPC_ADDR: string };
  /** Removes all of it. Whoever started processes in it ends them first. */
  remove(): Promise<void>;
}

/** The path is short: the control socket's has to fit into `sun_path`. */
export async function makeHome(): Promise<Home> {
  const dir = await mkdtemp(join(tmpdir(), 'svc-'));
  return {
    dir,
    env: { SVC_HOME: dir, SVC_HTTP_ADDR: '127.0.0.1:0', SVC_GRPC_ADDR: '127.0.0.1:0' },
    remove: () => rm(dir, { recursive: true, force: true, maxRetries: 3 }),
  };
}

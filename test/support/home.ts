/** A temporary SVC_HOME per daemon under test: no file of the user is read or written. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface Home {
  readonly dir: string;
  /** Environment that points a process to this home; HTTP and gRPC listen on any free port. */
  readonly env: { readonly SVC_HOME: string; readonly SVC_HTTP_ADDR: string; readonly SVC_GRPC_ADDR: string };
  /** Removes the directory. The test must end the processes that use it first. */
  remove(): Promise<void>;
}

/** The path is short because the control socket's path must fit into `sun_path`. */
export async function makeHome(): Promise<Home> {
  const dir = await mkdtemp(join(tmpdir(), 'svc-'));
  return {
    dir,
    env: { SVC_HOME: dir, SVC_HTTP_ADDR: '127.0.0.1:0', SVC_GRPC_ADDR: '127.0.0.1:0' },
    remove: () => rm(dir, { recursive: true, force: true, maxRetries: 3 }),
  };
}

/** Writes the config file of a home; returns its path. @param config its text, or what becomes its JSON */
export function configure({ dir }: Pick<Home, 'dir'>, config: object | string): string {
  const folder = join(dir, 'config');
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const text = typeof config === 'string' ? config : JSON.stringify(config);
  const file = join(folder, 'config.json');
  writeFileSync(file, text);
  return file;
}

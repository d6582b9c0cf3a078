/** Starts the daemon built in `dist/`, with a temporary SVC_HOME. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ControlClient } from '../src/client/control-client.ts';
import { answering, end, freePort } from './peers/servers/processes.ts';

const PROGRAM = join(dirname(dirname(fileURLToPath(import.meta.url))), 'bin', 'svc.cjs');

export interface Daemon {
  readonly pid: number;
  /** Base URL of the HTTP listener. */
  readonly url: string;
  /** `host:port` of the gRPC listener. */
  readonly grpc: string;
  /** Client of the control socket. */
  readonly client: ControlClient;
  /** Its SVC_HOME. */
  readonly home: string;
  stop(): Promise<void>;
}

export interface DaemonOptions {
  /** Model names and paths; the first model is the default. */
  readonly models?: Readonly<Record<string, string>>;
  /** Projector of the first model. */
  readonly projector?: string;
  /** LoRA adapters of the first model: names and paths. */
  readonly adapters?: Readonly<Record<string, string>>;
  /** Sections of the config file, without `http` and `grpc`. */
  readonly config: object;
}

/** Resolves when the daemon is ready. */
export async function startDaemon({ models = {}, projector, adapters = {}, config }: DaemonOptions): Promise<Daemon> {
  const home = await mkdtemp(join(tmpdir(), 'svc-bench-'));
  const environment = { ...process.env, SVC_HOME: home };
  const [port, grpcPort] = [await freePort(), await freePort()];
  await mkdir(join(home, 'config'), { recursive: true });
  const addresses = { http: { port }, grpc: { port: grpcPort } };
  await writeFile(join(home, 'config', 'config.json'), JSON.stringify({ ...addresses, ...config }));
  const [first] = Object.keys(models);
  for (const args of [
    ...Object.entries(models).map(([name, path], index) => [
      ...['model', 'add', path, '--name', name],
      ...(index === 0 && projector !== undefined ? ['--projector', projector] : []),
    ]),
    ...(first === undefined ? [] : [['model', 'default', first]]),
    ...Object.entries(adapters).map(([name, path]) => [
      'model',
      'add',
      path,
      '--name',
      name,
      '--adapter-of',
      first ?? '',
    ]),
  ]) {
    await succeed(
      spawn(process.execPath, [PROGRAM, ...args], { env: environment, stdio: ['ignore', 'ignore', 'inherit'] }),
    );
  }
  const child = spawn(process.execPath, [PROGRAM, 'serve'], { env: environment, stdio: 'ignore' });
  const stop = async (): Promise<void> => {
    await end(child);
    await rm(home, { recursive: true, force: true });
  };
  const url = `http://127.0.0.1:${String(port)}`;
  try {
    await answering(child, `${url}/readyz`);
  } catch (error) {
    await stop();
    throw error;
  }
  const client = new ControlClient(join(home, 'run', 'svc.sock'));
  return { pid: child.pid as number, url, grpc: `127.0.0.1:${String(grpcPort)}`, client, home, stop };
}

async function succeed(child: ChildProcess): Promise<void> {
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code !== 0) throw new Error(`${child.spawnargs.join(' ')} exited with ${String(code)}`);
}

/** The daemons of a cluster, and the one in front of them, each a process with its own SVC_HOME. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const PROGRAM = join(root, 'bin', 'svc.cjs');
const READY_MS = 60_000;

/** Model name in requests. Each server answers with its own model name, which identifies the server. */
export const MODEL = 'shared';

export interface Daemon {
  readonly name: string;
  readonly url: string;
  readonly child: ChildProcess;
  /** Process ids of the daemon and its engine. */
  pids(): Promise<number[]>;
  /** Sends a POST over the control socket. */
  control(path: string, body: object): Promise<void>;
  stop(): Promise<void>;
}

/** Starts a server of the cluster, with the built-in model under its own name. */
export async function startServer(index: number): Promise<Daemon> {
  const name = `server-${String(index)}`;
  return await start(name, { policies: { [MODEL]: { candidates: [`local/${name}`] } } }, async (svc) => {
    await svc('model', 'add', join(root, 'models', 'nano', 'nano.gguf'), '--name', name);
    await svc('model', 'default', name);
  });
}

/** Starts the daemon that clients connect to. */
export async function startFront(servers: readonly Daemon[]): Promise<Daemon> {
  const base_url = servers.map(({ url }) => `${url}/v1`);
  // A short idle timeout ends streams of a stopped server soon.
  const farm = { kind: 'openai_compatible', base_url, default_model: MODEL, idle_timeout_seconds: 2 };
  return await start('front', { providers: { farm } }, () => Promise.resolve());
}

async function start(
  name: string,
  more: object,
  prepare: (svc: (...args: string[]) => Promise<void>) => Promise<void>,
): Promise<Daemon> {
  const home = await mkdtemp(join(tmpdir(), 'svc-farm-'));
  const environment = { ...process.env, SVC_HOME: home };
  await mkdir(join(home, 'config'), { recursive: true });
  const config = { http: { port: 0 }, grpc: { port: 0 }, engine: { threads: 1, context_length: 16_384 }, ...more };
  await writeFile(join(home, 'config', 'config.json'), JSON.stringify(config));
  await prepare(async (...args) => {
    const child = spawn(process.execPath, [PROGRAM, ...args], {
      env: environment,
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    const [code] = (await once(child, 'exit')) as [number | null];
    if (code !== 0) throw new Error(`svc ${args.join(' ')} exited with ${String(code)}`);
  });
  const child = spawn(process.execPath, [PROGRAM, 'serve'], { env: environment, stdio: 'ignore' });
  const url = await ready(child, home);
  return {
    name,
    url,
    child,
    pids: async () => {
      const health = (await (await fetch(`${url}/v1/runtime/health`)).json()) as {
        pid: number;
        models: { pid: number | null }[];
      };
      return [health.pid, ...health.models.flatMap(({ pid }) => pid ?? [])];
    },
    control: async (path, body) => {
      const socketPath = join(home, 'run', 'svc.sock');
      const outgoing = request({ socketPath, path, method: 'POST', headers: { 'content-type': 'application/json' } });
      outgoing.end(JSON.stringify(body));
      const [response] = (await once(outgoing, 'response')) as [NodeJS.ReadableStream & { statusCode: number }];
      response.resume();
      if (response.statusCode >= 300) throw new Error(`${path}: ${String(response.statusCode)}`);
    },
    stop: async () => {
      if (child.exitCode === null && child.signalCode === null) {
        const ended = once(child, 'exit');
        child.kill('SIGCONT');
        child.kill('SIGTERM');
        const timer = setTimeout(() => child.kill('SIGKILL'), 10_000);
        await ended;
        clearTimeout(timer);
      }
      await rm(home, { recursive: true, force: true });
    },
  };
}

/** Returns the daemon's URL once it is ready. */
async function ready(child: ChildProcess, home: string): Promise<string> {
  const deadline = performance.now() + READY_MS;
  while (performance.now() < deadline) {
    if (child.exitCode !== null) throw new Error(`svc serve exited with ${String(child.exitCode)}`);
    const facts = (await readFile(join(home, 'state', 'daemon.json'), 'utf8').then(JSON.parse, () => null)) as {
      http?: string | null;
    } | null;
    if (typeof facts?.http === 'string') {
      const response = await fetch(`http://${facts.http}/readyz`).catch(() => null);
      if (response?.ok === true) return `http://${facts.http}`;
    }
    await sleep(50);
  }
  throw new Error('svc serve did not become ready in time');
}

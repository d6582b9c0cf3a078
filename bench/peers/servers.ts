/** The programs that are compared, each started once, on the same file, with the same threads and context. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Target } from './ask.ts';

const READY_MS = 120_000;

export interface ServerOptions {
  readonly root: string;
  readonly model: string;
  readonly threads: number;
  /** KV cells, for all streams together. */
  readonly contextLength: number;
  readonly hasSmallVocabulary: boolean;
}

export interface Server extends Target {
  readonly name: string;
  /** As it was started, for the report. */
  readonly command: string;
  /** Resident bytes of the process that has the model. */
  residentBytes(): Promise<number>;
  /** Ends the process that has the model, and resolves when it answers again. null: it has no such process of its own. */
  readonly restartEngine: (() => Promise<void>) | null;
  stop(): Promise<void>;
}

/** The daemon as it is built in `dist/`, in a home of its own. */
export async function startSvc({
  root,
  model,
  threads,
  contextLength,
  hasSmallVocabulary,
}: ServerOptions): Promise<Server> {
  const home = await mkdtemp(join(tmpdir(), 'svc-bench-'));
  const program = join(root, 'bin', 'svc.js');
  const environment = { ...process.env, SVC_HOME: home };
  const port = await freePort();
  await mkdir(join(home, 'config'), { recursive: true });
  const config = { http: { port }, grpc: { port: 0 }, engine: { threads, context_length: contextLength } };
  await writeFile(join(home, 'config', 'config.json'), JSON.stringify(config));
  for (const args of [
    ['model', 'add', model, '--name', 'bench'],
    ['model', 'default', 'bench'],
  ]) {
    await succeed(
      spawn(process.execPath, [program, ...args], { env: environment, stdio: ['ignore', 'ignore', 'inherit'] }),
    );
  }
  const child = spawn(process.execPath, [program, 'serve'], { env: environment, stdio: 'ignore' });
  const url = `http://127.0.0.1:${String(port)}`;
  await answering(child, `${url}/readyz`);
  const enginePid = async (): Promise<number> => {
    const health = (await (await fetch(`${url}/v1/runtime/health`)).json()) as { models: { pid: number | null }[] };
    return health.models[0]?.pid ?? 0;
  };
  return {
    name: 'svc',
    command: `svc serve (engine.threads ${String(threads)}, engine.context_length ${String(contextLength)})`,
    url,
    hasSmallVocabulary,
    residentBytes: async () => await residentBytes(await enginePid()),
    restartEngine: async () => {
      const pid = await enginePid();
      process.kill(pid, 'SIGTERM');
      const deadline = performance.now() + READY_MS;
      while (performance.now() < deadline) {
        const now = await enginePid().catch(() => 0);
        if (now !== 0 && now !== pid && (await fetch(`${url}/readyz`)).ok) return;
        await sleep(50);
      }
      throw new Error('the engine does not come back');
    },
    stop: async () => {
      await end(child);
      await rm(home, { recursive: true, force: true });
    },
  };
}

/** `slots`: `-np`; null: its default. */
export async function startLlamaServer(
  program: string,
  { model, threads, contextLength, hasSmallVocabulary }: ServerOptions,
  slots: number | null,
): Promise<Server> {
  const port = await freePort();
  const options = [
    '-t',
    String(threads),
    '-c',
    String(contextLength),
    ...(slots === null ? [] : ['-np', String(slots)]),
  ];
  const args = ['-m', model, '--host', '127.0.0.1', '--port', String(port), ...options];
  const child = spawn(program, args, { stdio: 'ignore' });
  const url = `http://127.0.0.1:${String(port)}`;
  await answering(child, `${url}/health`);
  return {
    name: slots === null ? 'llama-server' : `llama-server -np ${String(slots)}`,
    command: `llama-server -m MODEL ${options.join(' ')}`,
    url,
    hasSmallVocabulary,
    residentBytes: () => residentBytes(child.pid as number),
    restartEngine: null,
    stop: () => end(child),
  };
}

export async function answering(child: ChildProcess, url: string): Promise<void> {
  const deadline = performance.now() + READY_MS;
  while (performance.now() < deadline) {
    if (child.exitCode !== null || child.signalCode !== null) throw new Error(`${url}: the server has ended`);
    const response = await fetch(url).catch(() => null);
    if (response?.ok === true) return;
    await sleep(50);
  }
  throw new Error(`${url}: the server does not answer`);
}

export async function residentBytes(pid: number): Promise<number> {
  const status = await readFile(`/proc/${String(pid)}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) * 1024;
}

export async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, 'close');
  return port;
}

async function succeed(child: ChildProcess): Promise<void> {
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code !== 0) throw new Error(`${child.spawnargs.join(' ')} ended with ${String(code)}`);
}

export async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), 15_000);
  await ended;
  clearTimeout(timer);
}

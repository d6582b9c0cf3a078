/**
 * The environment of one fault: its own home and ports, a daemon started by `svc start`, the built-in model as the
 * default, and the model `tiny`, whose answers take seconds.
 */
import { createServer } from 'node:net';
import { join } from 'node:path';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { readFileSync } from 'node:fs';
import { ControlClient } from '../../src/client/control-client.ts';
import type { LoadedModelHealth } from '../../src/protocol/records.ts';
import { ask, type Answer } from '../http/ask.ts';
import { hold, type Held } from '../support/hold.ts';
import { configure, makeHome, type Home } from '../support/home.ts';
import { spawnSvc, type RunningSvc, type SvcOptions, type SvcResult } from '../support/svc.ts';
import { killQuietly, processesWith } from '../../scripts/steps/processes.js';
import { must, type Fault } from './fault.ts';
import { Load } from './load.ts';
import { LONG_TOKENS, Requests, type Stream } from './requests.ts';
import { HIGHEST_SLOWNESS, measureSlowness } from './slowness.ts';
import { waitFor } from './wait.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** Below the ephemeral range, so that no client gets such a port while the daemon is down. */
const PORTS = { first: 20_000, count: 12_000 };
const POLL_MS = 20;
/** Time for the last processes to exit. */
const GRACE_MS = 20_000;
/** Time limit of a command, even on a busy machine. */
const COMMAND_MS = 180_000;

export const TINY = join(ROOT, 'build', 'models', 'tiny-llama.gguf');
/** A request that `tiny` answers for seconds. */
export const LONG = { model: 'tiny', long: true } as const;
/** The same request on the command line. */
export const LONG_RUN = [
  'run',
  '-m',
  'tiny',
  '--max-tokens',
  String(LONG_TOKENS),
  '--temperature',
  '0',
  'Count the sheep',
];

export class Scene {
  readonly home: Home;
  readonly port: number;
  readonly client: ControlClient;
  readonly requests: Requests;
  readonly #fault: Fault;
  readonly #cleanups: (() => void | Promise<void>)[] = [];
  #load: Load | null = null;
  #slowness = 1;
  #recovery: Promise<number> | null = null;

  private constructor(home: Home, port: number, fault: Fault) {
    this.home = home;
    this.port = port;
    this.client = new ControlClient(this.path('run', 'svc.sock'));
    this.requests = new Requests(port);
    this.#fault = fault;
  }

  /** Creates a scene with an empty home and reserved ports. */
  static async make(fault: Fault): Promise<Scene> {
    const { dir, env, remove } = await makeHome();
    const [port, grpcPort] = [await freePort(), await freePort()];
    const addresses = { SVC_HTTP_ADDR: `127.0.0.1:${port}`, SVC_GRPC_ADDR: `127.0.0.1:${grpcPort}` };
    return new Scene({ dir, env: { ...env, ...addresses }, remove }, port, fault);
  }

  /** Sets up everything that the fault needs. */
  async begin(): Promise<void> {
    const { config, daemon, underLoad } = this.#fault;
    await this.#measureSlowness();
    if (config !== undefined) this.configure(config);
    must((await this.svc('model', 'add', TINY, '--name', 'tiny')).code === 0, 'the model could not be added');
    if (daemon !== 'absent') await this.start();
    if (underLoad === true) await this.load();
  }

  path(...parts: string[]): string {
    return join(this.home.dir, ...parts);
  }
  get configFile(): string {
    return this.path('config', 'config.json');
  }
  get logFile(): string {
    return this.path('state', 'daemon.log');
  }
  log(): string {
    return readFileSync(this.logFile, 'utf8');
  }

  configure(config: object | string): void {
    configure(this.home, config);
  }

  async svc(...args: string[]): Promise<SvcResult> {
    return await this.spawn(args).result;
  }

  /** Sends a GET over HTTP with the headers of `requests`. */
  async http(path: string): Promise<Answer> {
    return await ask({ port: this.port }, path, { headers: this.requests.headers });
  }

  spawn(args: readonly string[], options: Omit<SvcOptions, 'home'> = {}): RunningSvc {
    return spawnSvc(args, { home: this.home, timeoutMs: COMMAND_MS, ...options });
  }

  /** Starts the daemon. Throws if it does not become ready. */
  async start(): Promise<void> {
    const { code, stderr } = await this.svc('start', '--timeout', '60s');
    must(code === 0, `svc start: exit ${String(code)}: ${stderr}`);
  }

  /** Starts the background clients. */
  async load(): Promise<void> {
    this.#load = new Load(this.requests);
    await this.#load.flows();
  }

  async pid(): Promise<number> {
    const { pid } = await this.client.status();
    must(pid !== null, 'the daemon does not tell its pid');
    return pid;
  }

  async engine(model = 'builtin'): Promise<LoadedModelHealth & { readonly pid: number }> {
    return await waitFor(`an engine of ${model}`, async () => {
      const found = (await this.client.status()).models.find(({ id }) => id === model);
      const pid = found?.pid ?? null;
      return found !== undefined && pid !== null && { ...found, pid };
    });
  }

  /** Starts an answer of `tiny`; resolves when it has begun. */
  async stream(): Promise<Stream> {
    return await this.requests.stream(LONG);
  }

  /** The same, with its engine stopped at the first words: it stays in flight, however fast the machine is. */
  async heldStream(): Promise<Stream & Held & { readonly pid: number }> {
    // Loads it.
    await this.requests.ask({ model: 'tiny' });
    const { pid } = await this.engine('tiny');
    let held: Held | undefined;
    const stream = await this.requests.stream(LONG, () => (held ??= hold(pid)));
    return { ...stream, pid, release: () => held?.release() };
  }

  /** The same with `svc run`; the command is killed with the scene. */
  async run(): Promise<RunningSvc> {
    const running = this.spawn(LONG_RUN);
    this.onClose(() => void running.child.kill('SIGKILL'));
    await waitFor('the first words', () => running.stdout() !== '');
    return running;
  }

  /** Resolves once `count` requests are queued or active. */
  async underWay(count: number): Promise<void> {
    await waitFor(`${count} requests to be under way`, async () => {
      const { active, waiting } = (await this.client.health()).queue;
      return active + waiting >= count;
    });
  }

  /** Resolves once all engines are idle, as they must be soon after the last client has disconnected. */
  async idle(): Promise<void> {
    await waitFor('the engines to be idle', async () => {
      const { queue, models } = await this.client.health();
      return queue.active + queue.waiting === 0 && models.every(({ active, waiting }) => active + waiting === 0);
    });
  }

  /**
   * Runs `action`, which injects or repairs the fault. Recovery time is measured from its start until `model` answers
   * a request sent after it.
   */
  async timed(action: () => unknown, model = 'builtin'): Promise<void> {
    const since = performance.now();
    const done = action();
    this.#recovery = this.#answersAgain(since, model);
    this.#recovery.catch(() => undefined); // reported by `recovered`
    await done;
  }

  /** Resolves with the recovery time in seconds. Throws if it exceeds the limit. */
  async recovered(): Promise<number> {
    must(this.#recovery !== null, 'the fault was not planted');
    const seconds = await this.#recovery;
    const { withinSeconds } = this.#fault;
    if (seconds > withinSeconds * this.#slowness) await this.#measureSlowness();
    const limit = withinSeconds * this.#slowness;
    must(seconds <= limit, `it took ${seconds.toFixed(1)} s, the limit is ${limit.toFixed(1)} s`);
    return seconds;
  }

  /** Waits for more answers to the background clients, then stops them. */
  async calm(): Promise<void> {
    await this.#load?.flows();
    await this.#load?.stop();
    this.#load = null;
  }

  onClose(cleanup: () => void | Promise<void>): void {
    this.#cleanups.unshift(cleanup);
  }

  /** Ends and removes everything. Resolves with what svc left behind, which must be empty. */
  async close(): Promise<string[]> {
    const left: string[] = [];
    const load = this.#load;
    const stop = await this.svc('stop', '--force');
    if (stop.code !== 0) left.push(`svc stop --force: exit ${String(stop.code)}: ${stop.stderr}`);
    await load?.stop();
    for (const cleanup of this.#cleanups) {
      try {
        await cleanup();
      } catch (error) {
        left.push((error as Error).message);
      }
    }
    const deadline = performance.now() + GRACE_MS;
    for (;;) {
      const alive = await processesWith('SVC_HOME', this.home.dir);
      if (alive.length === 0) break;
      if (performance.now() > deadline) {
        for (const { pid, command } of alive) {
          left.push(`a process was left: ${command}`);
          killQuietly(pid);
        }
        break;
      }
      await sleep(POLL_MS);
    }
    await this.home.remove();
    return left;
  }

  /** Measures the slowness again; the highest measurement counts. */
  async #measureSlowness(): Promise<void> {
    this.#slowness = Math.max(this.#slowness, await measureSlowness(() => this.svc('version')));
  }

  async #answersAgain(since: number, model: string): Promise<number> {
    const seconds = (): number => (performance.now() - since) / 1000;
    const probe = new Requests(this.port);
    const limit = this.#fault.withinSeconds * HIGHEST_SLOWNESS;
    for (;;) {
      probe.headers = this.requests.headers;
      const { kind, saw } = await probe.ask({ model, maxTokens: 4 });
      if (kind === 'answered') return seconds();
      must(seconds() < limit, `no answer after ${seconds().toFixed(1)} s: ${saw}`);
      await sleep(POLL_MS);
    }
  }
}

/** Ports given to scenes of this process, so that two scenes never share one. */
const givenPorts = new Set<number>();

async function freePort(): Promise<number> {
  for (;;) {
    const port = PORTS.first + Math.floor(Math.random() * PORTS.count);
    if (givenPorts.has(port)) continue;
    givenPorts.add(port);
    const server = createServer();
    try {
      server.listen(port, '127.0.0.1');
      await once(server, 'listening');
      return port;
    } catch {
      // The port is in use.
    } finally {
      server.close();
    }
  }
}

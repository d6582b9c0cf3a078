/** A daemon in its own process, with the invariants that must hold whatever it received. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { connect } from 'node:http2';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { LIMITS } from '../../../src/daemon/grpc/limits.ts';
import { mostOfOneShare } from '../../../src/net/shares.ts';
import { ask } from '../../http/ask.ts';
import { compiled } from '../../support/compiled.ts';
import { spawnDaemon, type DaemonProcess } from '../../support/daemon.ts';
import { makeHome, type Home } from '../../support/home.ts';
import { waitFor } from '../../support/wait.ts';

const SCRIPTED = fileURLToPath(new URL('../../daemon/scripted-daemon.ts', import.meta.url));
const MIB = 1024 * 1024;
/** Allowed memory growth: 64 arriving requests, and garbage that is not collected yet. */
const MEMORY_BYTES = 500 * MIB;
const PATIENT = { timeoutMs: 60_000, intervalMs: 200 };
/** Maximum number of calls of one address that may be arriving at once. */
const PLACES = mostOfOneShare(LIMITS.arriving);
/** Tolerance for descriptors that the daemon opens and closes by itself. */
const SPARE_DESCRIPTORS = 8;
/** Failures that a request can cause legitimately. */
const FOREIGN_FAILURES: readonly unknown[] = ['DOWNLOAD_FAILED', 'CONFIG_INVALID', 'PROVIDER_FAILED'];

export class FuzzedDaemon {
  readonly #home: Home;
  readonly #process: DaemonProcess;
  readonly #memoryBytes: number | null;
  readonly #descriptors: number | null;
  readonly httpPort: number;
  readonly grpcPort: number;

  private constructor(home: Home, process: DaemonProcess, http: string, grpc: string) {
    this.#home = home;
    this.#process = process;
    this.httpPort = portOf(http);
    this.grpcPort = portOf(grpc);
    this.#memoryBytes = memoryOf(process.pid);
    this.#descriptors = descriptorsOf(process.pid);
  }

  static async start(isShipped: boolean): Promise<FuzzedDaemon> {
    const home = await makeHome();
    const env = { SVC_LOG_LEVEL: 'warn' };
    const daemon = await spawnDaemon(
      home,
      isShipped ? { env } : { entry: compiled(SCRIPTED), args: [], env },
    ).settled();
    const { http, grpc } = await daemon.client.status();
    // The first connection loads the gRPC library, before memory is measured.
    await checkHealth(portOf(grpc ?? ''));
    return new FuzzedDaemon(home, daemon, http ?? '', grpc ?? '');
  }

  get socketPath(): string {
    return this.#process.socketPath;
  }

  get pid(): number {
    return this.#process.pid;
  }

  /** Checks the invariants and returns the violations. */
  async check(): Promise<string[]> {
    const wrong: string[] = [];
    const attempt = async (what: string, work: () => Promise<void>): Promise<void> => {
      await work().catch((error: unknown) => wrong.push(`${what}: ${causeOf(error)}`));
    };
    await attempt('process', async () => {
      const { pid } = await this.#process.client.status();
      if (pid !== this.#process.pid) throw new Error('the daemon was restarted: its process id differs');
    });
    if (wrong.length === 0) await this.#checkListeners(attempt);
    for (const { level, msg, ...fields } of this.#process.log) {
      const { code } = (fields['err'] ?? {}) as { code?: unknown };
      const isBroken = level === 'fatal' || level === 'error' || msg.startsWith('a connection failed');
      if (isBroken && !FOREIGN_FAILURES.includes(code)) wrong.push(`log: ${level} ${msg} ${JSON.stringify(fields)}`);
    }
    for (const line of this.#process.stray) wrong.push(`standard error: ${line}`);
    const memory = memoryOf(this.#process.pid);
    if (memory !== null && this.#memoryBytes !== null && memory - this.#memoryBytes > MEMORY_BYTES) {
      wrong.push(`memory: ${mib(this.#memoryBytes)} at the start, ${mib(memory)} now`);
    }
    return wrong;
  }

  async #checkListeners(attempt: (what: string, work: () => Promise<void>) => Promise<void>): Promise<void> {
    await attempt('/livez', async () => {
      const { status } = await ask({ port: this.httpPort }, '/livez', { signal: AbortSignal.timeout(30_000) });
      if (status !== 200) throw new Error(`answers ${String(status)}`);
    });
    // Calls of clients that broke the protocol keep their slots until a ping times out.
    await attempt('grpc.health.v1', async () => {
      await waitFor('grpc.health.v1', () => checkHealth(this.grpcPort).then(() => true), PATIENT);
    });
  }

  /** Checks that no generation, connection or slot of the disconnected clients is left. */
  async checkLeft(): Promise<string[]> {
    const wrong: string[] = [];
    const { client, pid } = this.#process;
    const isIdle = async (): Promise<boolean> => {
      const { queue } = await client.health();
      return queue.active + queue.waiting === 0;
    };
    await waitFor('generations to end', isIdle, PATIENT).catch((error: unknown) => wrong.push(String(error)));
    const isClosed = (): boolean => (descriptorsOf(pid) ?? 0) <= (this.#descriptors ?? 0) + SPARE_DESCRIPTORS;
    await waitFor('connections to be closed', isClosed, PATIENT).catch((error: unknown) => wrong.push(String(error)));
    const areFree = (): Promise<true> => allPlacesAreFree(this.grpcPort).then(() => true);
    await waitFor('places', areFree, PATIENT).catch((error: unknown) => wrong.push(causeOf(error)));
    return wrong;
  }

  get memory(): string {
    const now = memoryOf(this.#process.pid);
    return now === null || this.#memoryBytes === null ? 'unknown' : `${mib(this.#memoryBytes)} to ${mib(now)}`;
  }

  async stop(): Promise<void> {
    this.#process.kill('SIGKILL');
    await this.#process.exit;
    await this.#home.remove();
  }
}

function portOf(address: string): number {
  return Number(address.split(':').at(-1));
}

async function checkHealth(port: number): Promise<void> {
  const session = connect(`http://127.0.0.1:${String(port)}`);
  try {
    session.on('error', () => undefined);
    const stream = session.request({
      ':method': 'POST',
      ':path': '/grpc.health.v1.Health/Check',
      'content-type': 'application/grpc',
      te: 'trailers',
    });
    stream.end(Buffer.alloc(5));
    let status: unknown;
    const judge = (headers: Record<string, unknown>): void => void (status = headers['grpc-status'] ?? status);
    stream.on('response', judge).on('trailers', judge).resume();
    await once(stream, 'close', { signal: AbortSignal.timeout(30_000) });
    if (status !== '0') throw new Error(`answers ${String(status)}`);
  } finally {
    session.destroy();
  }
}

/** Asserts that all slots are free: the maximum number of arriving calls is accepted. */
async function allPlacesAreFree(port: number): Promise<void> {
  const session = connect(`http://127.0.0.1:${String(port)}`);
  let refused = 0;
  try {
    session.on('error', () => undefined);
    for (let place = 0; place < PLACES; place += 1) {
      const stream = session.request({
        ':method': 'POST',
        ':path': '/svc.v1.Runtime/GetHealth',
        'content-type': 'application/grpc',
        te: 'trailers',
      });
      stream.on('error', () => undefined).on('response', () => (refused += 1));
      // The beginning of a message.
      stream.write(Buffer.from([0, 0]));
    }
    await once(session, 'remoteSettings', { signal: AbortSignal.timeout(30_000) });
    for (let round = 0; round < 5; round += 1) {
      await new Promise((resolve, reject) => {
        session.ping((error) => (error === null ? resolve(null) : reject(error)));
      });
    }
  } finally {
    session.destroy();
  }
  if (refused > 0) throw new Error(`${String(refused)} of ${String(PLACES)} slots were not freed`);
}

function causeOf(error: unknown): string {
  const { cause } = error as { readonly cause?: unknown };
  return cause instanceof Error ? `${String(error)}: ${cause.message}` : String(error);
}

function memoryOf(pid: number): number | null {
  const path = `/proc/${String(pid)}/status`;
  if (!existsSync(path)) return null;
  return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(path, 'utf8'))?.[1] ?? 0) * 1024;
}

function descriptorsOf(pid: number): number | null {
  const path = `/proc/${String(pid)}/fd`;
  return existsSync(path) ? readdirSync(path).length : null;
}

function mib(bytes: number): string {
  return `${String(Math.round(bytes / MIB))} MiB`;
}

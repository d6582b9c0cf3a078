/** A daemon in its own process, running in the foreground so that its log lines can be read as they arrive. */
import { spawn, type ChildProcess } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { ControlClient } from '../../src/client/control-client.ts';
import { childEnvironment } from '../../src/process/environment.ts';
import { parseLogLine } from '../../src/log/format.ts';
import type { LogRecord } from '../../src/protocol/logs.ts';
import type { ConditionName, StatusRecord } from '../../src/protocol/records.ts';
import type { Home } from './home.ts';
import { SVC_COMMAND } from './svc.ts';
import { waitFor } from './wait.ts';

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface DaemonProcess {
  readonly pid: number;
  readonly client: ControlClient;
  readonly socketPath: string;
  /** Log records so far. */
  readonly log: readonly LogRecord[];
  /** Lines on standard error that are not log lines. */
  readonly stray: readonly string[];
  /** Exit of the process. Rejects if it has not exited within PATIENCE_MS of reading this property. */
  readonly exit: Promise<Exit>;
  /** Sends a message on the IPC channel, for entry programs that read one. */
  send(message: object): void;
  kill(signal: NodeJS.Signals): void;
  /** Resolves once the daemon answers on its control socket; throws with all its output if it exits before. */
  answering(): Promise<this>;
  /** Resolves once the state is no longer STARTING. */
  settled(): Promise<this>;
}

export interface DaemonProcessOptions {
  /** Program to run instead of `svc`: JavaScript, or TypeScript, which starts slowly (see compiled.ts). */
  readonly entry?: string;
  readonly args?: readonly string[];
  /** Wrapper command; the daemon's command line is appended to it. */
  readonly through?: readonly string[];
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/**
 * Waits for the state READY and returns the status. On an overloaded machine a check of the files may take a second,
 * which makes a daemon DEGRADED for a moment.
 */
export async function readyStatus(client: ControlClient): Promise<StatusRecord> {
  return await waitFor<StatusRecord | false>('the state READY', async () => {
    const status = await client.status();
    return status.state === 'READY' && status;
  });
}

/** The statuses that `condition` has turned to since the daemon started, in order. */
export function turnsOf({ log }: DaemonProcess, condition: ConditionName): unknown[] {
  return log.flatMap((line) => (line['condition'] === condition ? [line['status']] : []));
}

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** Lines that are shown of a daemon's output when it ends by itself, and their length. */
const LAST_LINES = 20;
const LINE_CHARACTERS = 500;

/** Daemons still running; a test that is terminated for exceeding its time limit kills them. */
const living = new Set<ChildProcess>();
process.once('SIGTERM', () => {
  for (const child of living) child.kill('SIGKILL');
  process.exit(143);
});

const loaderOf = (entry: string): string[] => (entry.endsWith('.ts') ? ['--import', 'tsx'] : []);

/** Prints how a daemon ended that no test has killed: the tests that used it fail with the error of a connection. */
function reportEnd(pid: number | undefined, exit: Exit, output: readonly string[]): void {
  const last = output.slice(-LAST_LINES).map((line) => line.slice(0, LINE_CHARACTERS));
  console.error([`daemon ${String(pid)} ended: ${JSON.stringify(exit)}`, ...last].join('\n'));
}

/** The caller must kill or stop the daemon before it removes the home. */
export function spawnDaemon(
  home: Home,
  { entry, args = ['serve'], through = [], env = {} }: DaemonProcessOptions = {},
): DaemonProcess {
  const command = entry === undefined ? SVC_COMMAND : [process.execPath, ...loaderOf(entry), entry];
  const [program = '', ...before] = [...through, ...command];
  const child = spawn(program, [...before, ...args], {
    cwd: ROOT,
    env: childEnvironment({ ...home.env, ...env }),
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  });
  living.add(child);
  const log: LogRecord[] = [];
  const stray: string[] = [];
  createInterface({ input: child.stderr as NodeJS.ReadableStream }).on('line', (line) => {
    const record = parseLogLine(line);
    if (record === null) stray.push(line);
    else log.push(record);
  });
  const output = (): string[] => [...stray, ...log.map((line) => JSON.stringify(line))];
  let ended: Exit | undefined;
  child.once('close', (code, signal) => {
    ended = { code, signal };
    living.delete(child);
    if (code !== 0 && !child.killed) reportEnd(child.pid, ended, output());
  });
  const socketPath = env['SVC_SOCKET'] ?? join(home.dir, 'run', 'svc.sock');
  const client = new ControlClient(socketPath);

  const reach = async (what: string, probe: () => Promise<boolean>): Promise<void> => {
    const outcome = await waitFor(what, async () => ended ?? (await probe()));
    if (outcome === true) return;
    throw new Error(`the daemon ended (${JSON.stringify(outcome)}) before it was ${what}:\n${output().join('\n')}`);
  };
  return {
    pid: child.pid as number,
    client,
    socketPath,
    log,
    stray,
    get exit() {
      return waitFor('the daemon to end', () => ended);
    },
    send: (message) => void child.send(message),
    kill: (signal) => void child.kill(signal),
    async answering() {
      await reach('answering', async () => (await client.status()).pid === child.pid);
      return this;
    },
    async settled() {
      await reach('settled', async () => {
        const { pid, state } = await client.status();
        return pid === child.pid && state !== 'STARTING';
      });
      return this;
    },
  };
}

/** A daemon in a process of its own, in the foreground, so that its log lines can be read as they come. */
import { spawn, type ChildProcess } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { Client } from '../../src/client/client.ts';
import { childEnvironment } from '../../src/config/environment.ts';
import { parseLogLine } from '../../src/log/format.ts';
import type { LogRecord } from '../../src/protocol/logs.ts';
import type { Home } from './home.ts';
import { SVC_COMMAND } from './svc.ts';
import { waitFor } from './wait.ts';

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface DaemonProcess {
  readonly pid: number;
  readonly client: Client;
  readonly socketPath: string;
  /** What it has logged so far. */
  readonly log: readonly LogRecord[];
  /** What it wrote to standard error that is no log line. */
  readonly stray: readonly string[];
  /** Asked for, it rejects when it has not come within PATIENCE_MS. */
  readonly exit: Promise<Exit>;
  /** A message on the IPC channel, for entries that read one. */
  send(message: object): void;
  kill(signal: NodeJS.Signals): void;
  /** Resolves once it answers on its control socket; throws with all it wrote when it ends before. */
  answering(): Promise<this>;
  /** Once it is not STARTING any more. */
  settled(): Promise<this>;
}

export interface DaemonProcessOptions {
  /** Another program than `svc`. */
  readonly entry?: string;
  readonly args?: readonly string[];
  /** A command that runs the program that is its last arguments. */
  readonly through?: readonly string[];
  readonly env?: Readonly<Record<string, string | undefined>>;
}

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** A test that is ended for its time takes its daemons with it. */
const living = new Set<ChildProcess>();
process.once('SIGTERM', () => {
  for (const child of living) child.kill('SIGKILL');
  process.exit(143);
});

/** Kill it, or stop it, before the home is removed. */
export function spawnDaemon(
  home: Home,
  { entry, args = ['serve'], through = [], env = {} }: DaemonProcessOptions = {},
): DaemonProcess {
  const command = entry === undefined ? SVC_COMMAND : [process.execPath, '--import', 'tsx', entry];
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
  let ended: Exit | undefined;
  child.once('close', (code, signal) => {
    ended = { code, signal };
    living.delete(child);
  });
  const socketPath = env['SVC_SOCKET'] ?? join(home.dir, 'run', 'svc.sock');
  const client = new Client(socketPath);

  const reach = async (what: string, probe: () => Promise<boolean>): Promise<void> => {
    const outcome = await waitFor(what, async () => ended ?? (await probe()));
    if (outcome === true) return;
    throw new Error(
      `the daemon ended (${JSON.stringify(outcome)}) before it was ${what}:\n${[...stray, ...log.map((line) => JSON.stringify(line))].join('\n')}`,
    );
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

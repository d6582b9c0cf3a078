/**
 * The child's side of doctor's sandbox check: enters the sandbox and attempts what it forbids, with Node's own API and
 * with system calls that Node does not offer (native/process/trials.h).
 */
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { homedir, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { getSystemErrorName } from 'node:util';
import { loadProcessAddon } from '../process/addon.ts';
import { SvcError } from '../protocol/errors.ts';
import type { FromEngine, SandboxAttempt, ToEngine } from './messages.ts';
import { loadAddon } from './loader.ts';
import { enterSandbox, leaveLastCapability } from './sandbox.ts';

type TrySandbox = Extract<ToEngine, { type: 'try_sandbox' }>;

interface Attempt {
  readonly what: string;
  /** Throws or rejects if the attempt is refused. */
  make(parentPid: number): unknown;
}

/** Each attempt succeeds outside the sandbox, for every user. */
const ATTEMPTS: readonly Attempt[] = [
  { what: 'to read a file of the system', make: () => readFileSync('/etc/passwd') },
  { what: 'to list the home directory', make: () => readdirSync(homedir()) },
  { what: 'to write a file', make: writeFile },
  { what: 'to listen on a TCP port', make: () => listen({ port: 0, host: '127.0.0.1' }) },
  { what: 'to listen on a Unix socket', make: () => listen({ path: `\0svc-${String(process.pid)}` }) },
  { what: 'to start a program', make: startProgram },
  { what: 'to signal its parent', make: (parentPid) => process.kill(parentPid, 0) },
  { what: 'to look into its parent', make: (parentPid) => readFileSync(`/proc/${String(parentPid)}/stat`) },
];

export async function trySandbox({ parentPid }: TrySandbox, send: (message: FromEngine) => void): Promise<void> {
  try {
    const { addon, path } = loadAddon();
    addon.dieWithParent(parentPid);
    const report = enterSandbox({ addonFolder: dirname(path) });
    leaveLastCapability();
    const attempts: SandboxAttempt[] = [];
    for (const attempt of ATTEMPTS) attempts.push(await outcomeOf(attempt, parentPid));
    for (const { what, error } of loadProcessAddon().makeTrials(parentPid)) {
      attempts.push({ what, error: error === 0 ? null : getSystemErrorName(-error) });
    }
    send({ type: 'sandbox_tried', report, attempts });
  } catch (error) {
    send({ type: 'failed', error: SvcError.from(error).toRecord() });
  }
}

async function outcomeOf({ what, make }: Attempt, parentPid: number): Promise<SandboxAttempt> {
  try {
    await make(parentPid);
    return { what, error: null };
  } catch (error) {
    return { what, error: (error as NodeJS.ErrnoException).code ?? 'unknown' };
  }
}

function writeFile(): void {
  const path = join(tmpdir(), `svc-sandbox-${String(process.pid)}`);
  writeFileSync(path, '', { flag: 'wx' });
  rmSync(path);
}

async function listen(address: { port: number; host: string } | { path: string }): Promise<void> {
  const server = createServer().listen(address);
  await once(server, 'listening');
  server.close();
}

function startProgram(): void {
  const { error } = spawnSync(process.execPath, ['--version'], { stdio: 'ignore' });
  if (error !== undefined) throw error;
}

/** Runs `svc doctor` for the console, in a process of its own: one at a time, with a deadline. */
import { spawn } from 'node:child_process';
import { childEnvironment } from '../../process/environment.ts';
import { ownCommand } from '../../process/own-program.ts';
import type { DoctorRecord } from '../../protocol/doctor.ts';
import { SvcError } from '../../protocol/errors.ts';
import { parsedJson } from '../../protocol/foreign-text.ts';

/** Kernels run on every device, and every provider is asked. */
const DEADLINE_MS = 180_000;
const MOST_BYTES = 1024 * 1024;

export class Doctor {
  readonly #ending: AbortSignal;
  #running: Promise<DoctorRecord> | null = null;

  /** `ending`: aborted when the daemon ends. */
  constructor(ending: AbortSignal) {
    this.#ending = ending;
  }

  /** Callers during a run get its result. Rejects with TIMEOUT, INTERNAL, or NOT_READY at the end of the daemon. */
  async examine(): Promise<DoctorRecord> {
    this.#running ??= this.#run().finally(() => {
      this.#running = null;
    });
    return await this.#running;
  }

  /** Resolves when no run is left. Never rejects. REQUIRES: the daemon ends. */
  async close(): Promise<void> {
    await this.#running?.catch(() => undefined);
  }

  async #run(): Promise<DoctorRecord> {
    const deadline = AbortSignal.timeout(DEADLINE_MS);
    const text = await outputOf(AbortSignal.any([deadline, this.#ending]));
    if (this.#ending.aborted) throw new SvcError('NOT_READY', 'svc is stopping');
    if (deadline.aborted)
      throw new SvcError('TIMEOUT', `svc doctor did not end within ${String(DEADLINE_MS / 1000)} s`, {
        hint: 'run it in a terminal, where it shows what it waits for',
      });
    const record = parsedJson(text) as Partial<DoctorRecord> | undefined;
    if (typeof record?.ok === 'boolean' && Array.isArray(record.checks)) return record as DoctorRecord;
    throw new SvcError('INTERNAL', 'svc doctor ended without a result', { hint: 'run it in a terminal: svc doctor' });
  }
}

/** Resolves with what it prints, also if checks fail; the process is killed when `signal` is aborted. */
async function outputOf(signal: AbortSignal): Promise<string> {
  const { command, cwd } = ownCommand('svc');
  const [program, ...first] = command;
  const child = spawn(program, [...first, 'doctor', '--json'], {
    cwd,
    env: childEnvironment(),
    stdio: ['ignore', 'pipe', 'ignore'],
    windowsHide: true,
    signal,
    killSignal: 'SIGKILL',
  });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    if (text.length < MOST_BYTES) text += chunk;
  });
  await new Promise<void>((resolve) => {
    child.once('error', () => {
      if (child.pid === undefined) resolve();
    });
    child.once('close', () => resolve());
  });
  return text;
}

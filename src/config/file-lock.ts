/** For files that several processes change: read, modify and write, one process after the other. */
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { lock } from 'proper-lockfile';
import { makeDirectory } from '../files/make-directory.ts';
import { SvcError } from '../protocol/errors.ts';

/** A change takes milliseconds; a lock this old belongs to a process that is gone. */
const STALE_LOCK_MS = 10_000;
const RETRIES = 100;

export interface FileLockOptions {
  /** What is changed, for the error: "the models". */
  readonly what: string;
  /** How often it is tried; the pause grows to 0.2 s. */
  readonly retries?: number;
}

/**
 * Runs `change` while this process holds the lock `path`, whose directory is made if need be.
 * Rejects with BUSY when another process keeps it, and as `change` or the file system does.
 */
export async function withFileLock<Result>(
  path: string,
  { what, retries = RETRIES }: FileLockOptions,
  change: () => Promise<Result>,
): Promise<Result> {
  const directory = dirname(path);
  await makeDirectory(directory);
  const options = {
    lockfilePath: path,
    stale: STALE_LOCK_MS,
    // Only a process that stood still for as long as STALE_LOCK_MS can lose its lock.
    onCompromised: () => undefined,
  };
  const pause = (n: number): number => Math.min(200, 10 * 1.2 ** n) * (1 + Math.random());
  const release = await whenFree(() => lock(directory, options), retries, pause).catch((error: unknown) => {
    if (!isLocked(error)) throw error;
    throw new SvcError('BUSY', `another svc is changing ${what}`, { hint: 'try again', cause: error });
  });
  try {
    return await change();
  } finally {
    await release().catch(() => undefined);
  }
}

/**
 * Takes a lock, trying `retries` times again while another process has it; `pauseMs` is told how often it
 * has been tried. What the file system refuses is not tried again.
 */
export async function whenFree<Release>(
  take: () => Promise<Release>,
  retries: number,
  pauseMs: (tried: number) => number,
): Promise<Release> {
  for (let tried = 0; ; tried++) {
    try {
      return await take();
    } catch (error) {
      if (!isLocked(error) || tried === retries) throw error;
    }
    await sleep(pauseMs(tried));
  }
}

/** True if another process has the lock. */
export function isLocked(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'ELOCKED';
}

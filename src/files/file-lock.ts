/** Lock for files that several processes change (read, modify, write), one process at a time. */
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { lock } from 'proper-lockfile';
import { makeDirectory } from './make-directory.ts';
import { SvcError } from '../protocol/errors.ts';

/** A change takes milliseconds; a lock this old belongs to a process that is gone. */
const STALE_LOCK_MS = 10_000;
const RETRIES = 100;

export interface FileLockOptions {
  /** Object of the change, for the error: "the models". */
  readonly what: string;
  /** Number of retries; the pause grows to 0.2 s. */
  readonly retries?: number;
}

/**
 * Runs `change` while this process holds the lock `path`, whose directory is created if needed. Rejects with BUSY
 * when another process holds the lock, and with errors of `change` or the file system.
 */
export async function withFileLock<Result>(
  path: string,
  { what, retries = RETRIES }: FileLockOptions,
  change: () => Promise<Result>,
): Promise<Result> {
  await makeDirectory(dirname(path));
  const options = {
    lockfilePath: path,
    // proper-lockfile tells the locks of this process apart by the first argument of `lock`, not by `lockfilePath`.
    // Both are `path`, which does not exist yet and so has no real path.
    realpath: false,
    stale: STALE_LOCK_MS,
    // Only a process that was suspended for STALE_LOCK_MS can lose its lock.
    onCompromised: () => undefined,
  };
  const pause = (n: number): number => Math.min(200, 10 * 1.2 ** n) * (1 + Math.random());
  const release = await whenFree(() => lock(path, options), retries, pause).catch((error: unknown) => {
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
 * Takes a lock, with up to `retries` retries while another process holds it; `pauseMs` gets the number of attempts so
 * far. Errors of the file system are not retried.
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

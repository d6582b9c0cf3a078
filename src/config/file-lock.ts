/** For files that several processes change: read, modify and write, one process after the other. */
import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { lock } from 'proper-lockfile';
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
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const release = await lock(directory, {
    lockfilePath: path,
    stale: STALE_LOCK_MS,
    retries: { retries, factor: 1.2, minTimeout: 10, maxTimeout: 200, randomize: true },
    // Only a process that stood still for as long as STALE_LOCK_MS can lose its lock.
    onCompromised: () => undefined,
  }).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code !== 'ELOCKED') throw error;
    throw new SvcError('BUSY', `another svc is changing ${what}`, { hint: 'try again', cause: error });
  });
  try {
    return await change();
  } finally {
    await release().catch(() => undefined);
  }
}

/** Locks of downloads: one process at a time downloads a file; other processes wait, and then find it. */
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { lock } from 'proper-lockfile';
import { makeDirectory } from '../../files/make-directory.ts';
import { SvcError } from '../../protocol/errors.ts';
import { cannotWrite } from '../store/registry.ts';

/** The holder updates its lock every few seconds; a lock older than this belongs to a process that was killed. */
const STALE_MS = 5000;
const LOOK_AGAIN_MS = 250;

export interface LockOptions {
  readonly signal: AbortSignal;
  /** Called at each attempt while another process holds the lock. */
  onWait(): void | Promise<void>;
}

/** Runs `work` while this process holds all locks, taken in order. Its signal is also aborted when a lock is lost. */
export async function withDownloadLocks<Result>(
  paths: readonly string[],
  options: LockOptions,
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const [first, ...others] = paths;
  if (first === undefined) return await work(options.signal);
  return await withLock(first, options, (signal) => withDownloadLocks(others, { ...options, signal }, work));
}

async function withLock<Result>(
  path: string,
  { signal, onWait }: LockOptions,
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const directory = dirname(path);
  const lost = new AbortController();
  let release: (() => Promise<void>) | undefined;
  while (release === undefined) {
    signal.throwIfAborted();
    try {
      await makeDirectory(directory);
      release = await lock(path, {
        lockfilePath: path,
        realpath: false,
        stale: STALE_MS,
        // This process was suspended for long; another process may be writing by now.
        onCompromised: () => lost.abort(new SvcError('BUSY', 'another svc has taken over this download')),
      });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ELOCKED') throw cannotWrite(error, directory);
      await onWait();
      await sleep(LOOK_AGAIN_MS, undefined, { signal }).catch(() => undefined);
    }
  }
  try {
    return await work(AbortSignal.any([signal, lost.signal]));
  } finally {
    await release().catch(() => undefined);
  }
}

/** One process at a time fetches a file; the others wait, and then find it. */
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { lock } from 'proper-lockfile';
import { makeDirectory } from '../../files/make-directory.ts';
import { SvcError } from '../../protocol/errors.ts';
import { cannotWrite } from '../registry.ts';

/** The holder says every few seconds that it lives; one that does not was killed. */
const STALE_MS = 5000;
const LOOK_AGAIN_MS = 250;

export interface LockOptions {
  readonly signal: AbortSignal;
  /** Another process has it; told again with each look. */
  onWait(): void | Promise<void>;
}

/** Runs `work` while this process holds all the locks, taken in their order. Its signal is aborted when one is lost, too. */
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
        // A process that stood still for long; somebody else may be writing by now.
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

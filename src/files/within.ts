import { setTimeout as sleep } from 'node:timers/promises';

/** Resolves as `work` does; with undefined once `timeoutMs` are over, or at once when `hurry` is aborted. */
export async function within<Result>(
  timeoutMs: number,
  work: Promise<Result>,
  hurry?: AbortSignal,
): Promise<Result | undefined> {
  const given = new AbortController();
  const signal = hurry === undefined ? given.signal : AbortSignal.any([given.signal, hurry]);
  try {
    return await Promise.race([work, sleep(timeoutMs, undefined, { signal }).catch(() => undefined)]);
  } finally {
    given.abort();
  }
}

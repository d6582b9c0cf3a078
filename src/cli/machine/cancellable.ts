/** Work that Ctrl-C, or another request to end this process, cancels. */
import type { SvcError } from '../../protocol/errors.ts';
import { sayProgress } from '../terminal/output.ts';

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** Aborts the signal of `work` with `error` when this process is to end. Clears the line of progress. */
export async function cancellable<Result>(
  error: SvcError,
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const cancelled = new AbortController();
  const onSignal = (): void => cancelled.abort(error);
  for (const signal of SIGNALS) process.on(signal, onSignal);
  try {
    return await work(cancelled.signal);
  } finally {
    sayProgress('');
    for (const signal of SIGNALS) process.off(signal, onSignal);
  }
}

/** Streams that a view shows as long as it is open. */
import type { Signal } from '@preact/signals';
import type { ErrorEvent } from '../../../src/protocol/routes.ts';
import { ApiError } from './api-error.ts';
import { askLines } from './request.ts';

const PAUSE_MS = 1000;

/**
 * Reads the lines of a stream until its event `end` or until `signal` is aborted. A stream that breaks is read again
 * from its beginning: the daemon may still answer, and then nothing else would begin it again. `error` gets why it
 * ended; null: it is read. Never throws.
 */
export async function follow<Line extends { readonly type: string }>(
  path: string,
  signal: AbortSignal,
  error: Signal<ApiError | null>,
  onLine: (line: Exclude<Line, ErrorEvent | { type: 'end' }>, isFirst: boolean) => void,
): Promise<void> {
  error.value = null;
  while (!signal.aborted) {
    let isFirst = true;
    try {
      for await (const line of askLines<Line>(path, { signal })) {
        if (line.type === 'end') return;
        onLine(line as Exclude<Line, ErrorEvent | { type: 'end' }>, isFirst);
        isFirst = false;
      }
    } catch (thrown) {
      const failure = ApiError.from(thrown);
      if (!failure.isUnreachable) {
        if (!failure.isCancelled) error.value = failure;
        return;
      }
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}

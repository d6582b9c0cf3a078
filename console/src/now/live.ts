/** Samples of the daemon, one a second, of the last minutes. */
import { signal } from '@preact/signals';
import type { LiveEvent, LiveSample } from '../../../src/protocol/live.ts';
import { HTTP_ROUTES, type ErrorEvent } from '../../../src/protocol/routes.ts';
import { ApiError } from '../api/api-error.ts';
import { askLines } from '../api/request.ts';

/** Five minutes. */
const MOST_SAMPLES = 300;

/** The oldest first. */
export const samples = signal<readonly LiveSample[]>([]);
export const liveError = signal<ApiError | null>(null);

/** Reads samples until `signal` is aborted or the daemon goes away. Never throws. */
export async function readLive(signal: AbortSignal): Promise<void> {
  try {
    for await (const event of askLines<LiveEvent | ErrorEvent>(HTTP_ROUTES.runtimeLive, { signal })) {
      liveError.value = null;
      if (event.type === 'end') return;
      samples.value = [...samples.value.slice(1 - MOST_SAMPLES), event];
    }
  } catch (thrown) {
    const error = ApiError.from(thrown);
    if (!error.isCancelled && !error.isUnreachable) liveError.value = error;
  }
}

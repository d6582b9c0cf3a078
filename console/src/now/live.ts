/** Samples of the daemon, one a second, of the last minutes. */
import { signal } from '@preact/signals';
import { ApiError } from '../api/api-error.ts';
import { PATHS } from '../api/paths.ts';
import { askLines } from '../api/request.ts';
import type { LiveEvent, LiveSample } from './live-sample.ts';

/** Five minutes. */
const MOST_SAMPLES = 300;

/** The oldest first. */
export const samples = signal<readonly LiveSample[]>([]);
export const liveError = signal<ApiError | null>(null);

/** Reads samples until `signal` is aborted or the daemon goes away. Never throws. */
export async function readLive(signal: AbortSignal): Promise<void> {
  try {
    for await (const event of askLines<LiveEvent>(PATHS.live, { signal })) {
      liveError.value = null;
      samples.value = [...samples.value.slice(1 - MOST_SAMPLES), event];
    }
  } catch (thrown) {
    const error = ApiError.from(thrown);
    if (!error.isCancelled && !error.isUnreachable) liveError.value = error;
  }
}

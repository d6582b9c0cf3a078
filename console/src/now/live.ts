/** Samples of the daemon, one a second, of the last minutes. */
import { signal } from '@preact/signals';
import type { LiveEvent, LiveSample } from '../../../src/protocol/live.ts';
import { HTTP_ROUTES, type ErrorEvent } from '../../../src/protocol/routes.ts';
import type { ApiError } from '../api/api-error.ts';
import { follow } from '../api/follow.ts';

/** Five minutes. */
const MOST_SAMPLES = 300;

/** The oldest first. */
export const samples = signal<readonly LiveSample[]>([]);
export const liveError = signal<ApiError | null>(null);

/** Reads samples until `signal` is aborted. Never throws. */
export async function readLive(signal: AbortSignal): Promise<void> {
  await follow<LiveEvent | ErrorEvent>(HTTP_ROUTES.runtimeLive, signal, liveError, (sample) => {
    samples.value = [...samples.value.slice(1 - MOST_SAMPLES), sample];
  });
}

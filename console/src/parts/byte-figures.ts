/** How far work on bytes is: amount, rate and time left. */
import type { BytesDone } from '../../../src/protocol/routes.ts';
import { bytes, duration, NONE } from './format.ts';

export interface ByteFigures {
  readonly doneBytes: number;
  /** 0: not known yet. */
  readonly totalBytes: number;
  /** Average over the last seconds; null: not known. */
  readonly bytesPerSecond: number | null;
}

export const NO_BYTES: ByteFigures = { doneBytes: 0, totalBytes: 0, bytesPerSecond: null };

export function byteFigures({ done_bytes, total_bytes, bytes_per_second }: BytesDone): ByteFigures {
  return { doneBytes: done_bytes, totalBytes: total_bytes, bytesPerSecond: bytes_per_second };
}

/** `1 MB of 5 MB`. */
export function amountOf({ doneBytes, totalBytes }: ByteFigures): string {
  return `${bytes(doneBytes)} of ${bytes(totalBytes)}`;
}

/** `1 MB of 5 MB · 2 MB/s · 2 s left`. */
export function progressLine(figures: ByteFigures): string {
  const { bytesPerSecond } = figures;
  const left = timeLeftMs(figures);
  const rate = bytesPerSecond === null ? NONE : `${bytes(bytesPerSecond)}/s`;
  return `${amountOf(figures)} · ${rate} · ${left === null ? NONE : `${duration(left)} left`}`;
}

/** Attributes of a `progress` element; it has no value while the total is not known. */
export function progressValue({ doneBytes, totalBytes }: ByteFigures): { max: number; value?: number } {
  return totalBytes === 0 ? { max: 1 } : { max: 1, value: doneBytes / totalBytes };
}

/** Milliseconds until it is done, at the rate of the last seconds; null: not known. */
function timeLeftMs({ doneBytes, totalBytes, bytesPerSecond }: ByteFigures): number | null {
  if (totalBytes === 0 || bytesPerSecond === null || bytesPerSecond <= 0) return null;
  return ((totalBytes - doneBytes) / bytesPerSecond) * 1000;
}

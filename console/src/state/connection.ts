/** Whether the daemon answers, and its health record, which is read every few seconds while the page is visible. */
import { signal } from '@preact/signals';
import type { HealthRecord } from '../../../src/protocol/records.ts';
import { ApiError } from '../api/api-error.ts';
import { askHealth } from '../api/request.ts';
import { key, keyWanted, refuseKey } from './session.ts';

const VISIBLE_MS = 1000;
const HIDDEN_MS = 15_000;
const TIMEOUT_MS = 5000;

export type Connection = 'connecting' | 'online' | 'offline';

export const connection = signal<Connection>('connecting');
/** null: not read yet, or not allowed. */
export const health = signal<HealthRecord | null>(null);
/** Changes when the daemon answers again or the key changes: what was read before may be out of date. */
export const epoch = signal(0);

let timer: ReturnType<typeof setTimeout> | undefined;
let reading: AbortController | null = null;

/** Starts to read, and reads at once whenever the page becomes visible or the key changes. */
export function connect(): void {
  document.addEventListener('visibilitychange', () => void check());
  addEventListener('online', () => void check());
  // Also calls at once.
  key.subscribe(() => void check());
}

/** Reads now; a reading in progress is replaced. */
export async function check(): Promise<void> {
  clearTimeout(timer);
  reading?.abort();
  const mine = new AbortController();
  reading = mine;
  const sentKey = key.value;
  try {
    const signal = AbortSignal.any([mine.signal, AbortSignal.timeout(TIMEOUT_MS)]);
    const record = await askHealth(signal);
    if (reading === mine) answered(record);
  } catch (error) {
    if (reading !== mine) return;
    const failure = ApiError.from(error);
    // Other routes may need a key where this one does not: they say so themselves.
    if (failure.code === 'UNAUTHORIZED') refuseKey(sentKey, failure);
    if (['UNREACHABLE', 'CANCELLED', 'PAGE'].includes(failure.code)) connection.value = 'offline';
    else answered(null);
  }
  timer = setTimeout(() => void check(), document.hidden ? HIDDEN_MS : VISIBLE_MS);
}

function answered(record: HealthRecord | null): void {
  const isNew = connection.value !== 'online' || health.value?.pid !== record?.pid;
  health.value = record;
  if (record !== null) keyWanted.value = null;
  connection.value = 'online';
  if (isNew) epoch.value += 1;
}

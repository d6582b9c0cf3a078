/** Pulls that this page has started. They go on while another view is shown; leaving the page stops them. */
import { signal } from '@preact/signals';
import { HTTP_ROUTES, type PullEvent } from '../../../src/protocol/routes.ts';
import { ApiError } from '../api/api-error.ts';
import { askLines } from '../api/request.ts';
import { readModels } from '../chat/models.ts';
import { announce } from '../parts/announcer.tsx';

export interface Pull {
  /** As the user typed it. */
  readonly model: string;
  readonly state: 'resolving' | 'running' | 'waiting' | 'done' | 'failed' | 'stopped';
  readonly doneBytes: number;
  /** 0: not known yet. */
  readonly totalBytes: number;
  readonly bytesPerSecond: number | null;
  /** Why the pull waits; empty if it does not. */
  readonly reason: string;
  readonly error: ApiError | null;
}

export const pulls = signal<readonly Pull[]>([]);
/** Grows when a pull has ended well: lists of models are then out of date. */
export const pulled = signal(0);

const running = new Map<string, AbortController>();

/** Pulls a model, unless this page pulls it already. What an earlier pull has downloaded is not downloaded again. */
export async function pull(model: string): Promise<void> {
  if (running.has(model)) return;
  const controller = new AbortController();
  running.set(model, controller);
  const start: Pull = {
    model,
    state: 'resolving',
    doneBytes: 0,
    totalBytes: 0,
    bytesPerSecond: null,
    reason: '',
    error: null,
  };
  pulls.value = [...pulls.value.filter((each) => each.model !== model), start];
  try {
    const { signal } = controller;
    for await (const event of askLines<PullEvent>(HTTP_ROUTES.runtimePull, { body: { model }, signal }))
      change(model, after(event));
    if (find(model)?.state !== 'done') throw ApiError.cutOff();
    announce(`${model} is installed`);
    pulled.value += 1;
    await readModels();
  } catch (thrown) {
    const error = ApiError.from(thrown);
    change(model, error.isCancelled ? { state: 'stopped' } : { state: 'failed', error });
    announce(error.isCancelled ? `The pull of ${model} is stopped` : `The pull of ${model} failed: ${error.message}`);
  } finally {
    running.delete(model);
  }
}

export function stopPull(model: string): void {
  running.get(model)?.abort();
}

/** Removes a pull that has ended from the list. */
export function dismiss(model: string): void {
  pulls.value = pulls.value.filter((each) => each.model !== model);
}

/** Milliseconds until it is done, at the rate of the last seconds; null: not known. */
export function timeLeftMs({ doneBytes, totalBytes, bytesPerSecond }: Pull): number | null {
  if (totalBytes === 0 || bytesPerSecond === null || bytesPerSecond <= 0) return null;
  return ((totalBytes - doneBytes) / bytesPerSecond) * 1000;
}

function after(event: Exclude<PullEvent, { type: 'error' }>): Partial<Pull> {
  switch (event.type) {
    case 'resolved':
      return { state: 'running', doneBytes: event.present_bytes, totalBytes: event.total_bytes };
    case 'progress': {
      const { done_bytes, total_bytes, bytes_per_second } = event;
      const figures = { doneBytes: done_bytes, totalBytes: total_bytes, bytesPerSecond: bytes_per_second };
      return { state: 'running', reason: '', ...figures };
    }
    case 'waiting':
      return { state: 'waiting', reason: event.reason, bytesPerSecond: null };
    case 'pulled':
      return { state: 'done', reason: '', bytesPerSecond: null };
  }
}

const find = (model: string): Pull | undefined => pulls.value.find((each) => each.model === model);

function change(model: string, next: Partial<Pull>): void {
  pulls.value = pulls.value.map((each) => (each.model === model ? { ...each, ...next } : each));
}

/** Pulls that this page has started. They go on while another view is shown; leaving the page stops them. */
import { signal } from '@preact/signals';
import { HTTP_ROUTES, type PullEvent } from '../../../src/protocol/routes.ts';
import { ApiError } from '../api/api-error.ts';
import { askLines } from '../api/request.ts';
import { readModels } from '../chat/models.ts';
import { announce } from '../parts/announcer.tsx';
import { byteFigures, NO_BYTES, type ByteFigures } from '../parts/byte-figures.ts';
import { installedChanges } from './installed.ts';

export interface Pull extends ByteFigures {
  /** As the user typed it. */
  readonly model: string;
  readonly state: 'resolving' | 'running' | 'waiting' | 'done' | 'failed' | 'stopped';
  /** Why the pull waits; empty if it does not. */
  readonly reason: string;
  readonly error: ApiError | null;
}

export const pulls = signal<readonly Pull[]>([]);

const running = new Map<string, AbortController>();

/** Pulls a model, unless this page pulls it already. What an earlier pull has downloaded is not downloaded again. */
export async function pull(model: string): Promise<void> {
  if (running.has(model)) return;
  const controller = new AbortController();
  running.set(model, controller);
  const start: Pull = { model, state: 'resolving', ...NO_BYTES, reason: '', error: null };
  pulls.value = [...pulls.value.filter((each) => each.model !== model), start];
  try {
    const { signal } = controller;
    for await (const event of askLines<PullEvent>(HTTP_ROUTES.runtimePull, { body: { model }, signal }))
      change(model, after(event));
    if (find(model)?.state !== 'done') throw ApiError.cutOff();
    announce(`${model} is installed`);
    installedChanges.value += 1;
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

function after(event: Exclude<PullEvent, { type: 'error' }>): Partial<Pull> {
  switch (event.type) {
    case 'resolved':
      return { state: 'running', doneBytes: event.present_bytes, totalBytes: event.total_bytes };
    case 'progress':
      return { state: 'running', reason: '', ...byteFigures(event) };
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

/** Loads that this page has started. */
import { signal } from '@preact/signals';
import { HTTP_ROUTES, type LoadEvent } from '../../../src/protocol/routes.ts';
import { ask, askLines } from '../api/request.ts';
import { check } from '../state/connection.ts';
import { announce } from '../parts/announcer.tsx';

/** Fraction loaded, by model. */
export const loading = signal<ReadonlyMap<string, number>>(new Map());

/** Resolves when the model is loaded. Throws ApiError. */
export async function load(model: string): Promise<void> {
  set(model, 0);
  try {
    for await (const event of askLines<LoadEvent>(HTTP_ROUTES.runtimeLoad, { body: { model } }))
      if (event.type === 'progress') set(model, event.fraction);
    announce(`${model} is loaded`);
  } finally {
    set(model, null);
    void check();
  }
}

/** Throws ApiError. */
export async function unload(model: string): Promise<void> {
  await ask(HTTP_ROUTES.runtimeUnload, { body: { model } });
  announce(`${model} is unloaded`);
  void check();
}

function set(model: string, fraction: number | null): void {
  const next = new Map(loading.value);
  if (fraction === null) next.delete(model);
  else next.set(model, fraction);
  loading.value = next;
}

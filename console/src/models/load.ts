/** Loads that this page has started. */
import { signal } from '@preact/signals';
import { HTTP_ROUTES, type LoadEvent } from '../../../src/protocol/routes.ts';
import { ask, askLines } from '../api/request.ts';
import { check } from '../state/connection.ts';
import { announce } from '../parts/announcer.tsx';
import { byteFigures, NO_BYTES, type ByteFigures } from '../parts/byte-figures.ts';

/** How much of it is loaded, by model. */
export const loading = signal<ReadonlyMap<string, ByteFigures>>(new Map());

/** Resolves when the model is loaded. Throws ApiError. */
export async function load(model: string): Promise<void> {
  set(model, NO_BYTES);
  try {
    for await (const event of askLines<LoadEvent>(HTTP_ROUTES.runtimeLoad, { body: { model } }))
      if (event.type === 'progress') set(model, byteFigures(event));
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

function set(model: string, figures: ByteFigures | null): void {
  const next = new Map(loading.value);
  if (figures === null) next.delete(model);
  else next.set(model, figures);
  loading.value = next;
}

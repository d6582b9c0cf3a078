/** The names that a chat may use as its model. */
import { computed, signal } from '@preact/signals';
import type { Model } from '../../../src/protocol/openai/model.ts';
import { HTTP_ROUTES } from '../../../src/protocol/routes.ts';
import { ask } from '../api/request.ts';
import { epoch } from '../state/connection.ts';

const all = signal<readonly Model[]>([]);

/** Those that chat: a model for embeddings or ranking does not. */
export const chatModels = computed(() =>
  all.value.filter(({ capabilities }) => !capabilities.some((each) => each === 'embedding' || each === 'rerank')),
);

epoch.subscribe(() => void readModels());

/** Reads the names again, as after a pull. */
export async function readModels(): Promise<void> {
  try {
    const { data } = await ask<{ readonly data: readonly Model[] }>(HTTP_ROUTES.models);
    all.value = data;
  } catch {
    // The names read before stay: `connection` says why.
  }
}

/** Resolves `engine.draft_model`, the model for speculative decoding (native/engine/draft/drafter.h). */
import type { Logger } from '../../log/log.ts';
import { SvcError } from '../../protocol/errors.ts';
import type { Store } from './store.ts';
import type { Model } from './pool.ts';

export interface DraftModelOptions {
  /** The config's `engine.draft_model`. */
  readonly name: string | null;
  readonly store: Store;
  readonly log: Logger;
}

/**
 * Returns the path of the draft model's file, which the store has validated. undefined: `model` is loaded without
 * one; the log says why. The engine checks that their vocabularies match.
 */
export async function draftPathFor(model: Model, { name, store, log }: DraftModelOptions): Promise<string | undefined> {
  if (name === null) return undefined;
  try {
    const { path } = await store.find(name);
    if (path !== model.path) return path;
    log.info({ model: model.id }, 'the model is engine.draft_model itself: loaded without a draft model');
  } catch (error) {
    const reason = SvcError.from(error).message;
    log.warn({ model: model.id, reason }, 'engine.draft_model cannot be used: loaded without a draft model');
  }
  return undefined;
}

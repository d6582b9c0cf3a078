/**
 * Resolves `engine.draft_model` or `models.NAME.draft`, the model for speculative decoding
 * (native/engine/draft/drafter.h).
 */
import type { Logger } from '../../log/log.ts';
import { SvcError } from '../../protocol/errors.ts';
import type { EngineModel } from './engine-model.ts';
import type { Store } from './store.ts';

export interface DraftModelOptions {
  readonly store: Store;
  readonly log: Logger;
}

/**
 * Returns the path of the draft model's file, which the store has validated. undefined: `model` is loaded without
 * one; the log says why. The engine checks that their vocabularies match.
 */
export async function draftPathFor(
  { id, path: own, draft }: EngineModel,
  { store, log }: DraftModelOptions,
): Promise<string | undefined> {
  if (draft === null) return undefined;
  try {
    const { path } = await store.find(draft);
    if (path !== own) return path;
    log.info({ model: id }, 'the model is engine.draft_model itself: loaded without a draft model');
  } catch (error) {
    const reason = SvcError.from(error).message;
    log.warn({ model: id, reason }, 'engine.draft_model cannot be used: loaded without a draft model');
  }
  return undefined;
}

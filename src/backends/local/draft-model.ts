/** The model that drafts for others in their engines (native/engine/draft/drafter.h), as the config names it. */
import type { Logger } from '../../log/log.ts';
import { SvcError } from '../../protocol/errors.ts';
import type { Store } from './local-backend.ts';
import type { Model } from './pool.ts';

export interface DraftModelOptions {
  /** The config's `engine.draft_model`. */
  readonly name: string | null;
  readonly store: Store;
  readonly log: Logger;
}

/**
 * The path of its file, which the store has looked at as at any model's. undefined: `model` goes without, and the log
 * says why. Whether their vocabularies are the same, the engine finds out.
 */
export async function draftPathFor(model: Model, { name, store, log }: DraftModelOptions): Promise<string | undefined> {
  if (name === null) return undefined;
  try {
    const { path } = await store.find(name);
    if (path !== model.path) return path;
    log.info({ model: model.id }, 'this is engine.draft_model itself: nothing drafts for it');
  } catch (error) {
    const reason = SvcError.from(error).message;
    log.warn({ model: model.id, reason }, 'engine.draft_model cannot be used: the model is loaded without it');
  }
  return undefined;
}

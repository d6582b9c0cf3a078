/** Names of models as Ollama's clients spell them: `name:tag`, where a name without a tag means `:latest`. */
import * as v from 'valibot';
import { LIMITS } from '../limits.ts';
import type { ListedModel } from '../model/listed.ts';
import { DEFAULT_NAME, findNamed } from '../model/named.ts';

const LATEST = ':latest';

export const nameSchema = v.pipe(v.string(), v.minLength(1), v.maxLength(LIMITS.modelNameLength));

/** The name without `:latest`. */
export function withoutLatest(name: string): string {
  return name.toLowerCase().endsWith(LATEST) ? name.slice(0, -LATEST.length) : name;
}

/** The name as Ollama lists it: with a tag. */
export function withTag(id: string): string {
  return /:[^:/]*$/.test(id) ? id : id + LATEST;
}

/** As findNamed, also for `default`; `:latest` may be there although the id has no tag. */
export function findModel<Model extends Pick<ListedModel, 'id' | 'aliases' | 'default'>>(
  typed: string,
  models: readonly Model[],
): Model | undefined {
  const bare = withoutLatest(typed);
  if (bare === DEFAULT_NAME) return models.find((model) => model.default);
  return findNamed(typed, models) ?? findNamed(bare, models) ?? findNamed(bare + LATEST, models);
}

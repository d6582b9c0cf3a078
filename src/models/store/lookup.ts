/** Resolves a typed name to one of the added models. */
import { SvcError } from '../../protocol/errors.ts';
import { BUILTIN_ID, DEFAULT_NAME, findNamed, taggedAs } from '../../protocol/model/named.ts';
import { suggest } from '../../protocol/suggest.ts';
import { freeId, modelIdFor } from './model-id.ts';
import type { Registry, RegistryEntry } from './registry.ts';

/** How a new model is named. */
export interface NewModel {
  readonly id: string;
  /** False if the id was derived from a file name: if it is taken, a free one is chosen. */
  readonly isIdFixed: boolean;
  /** True if the model is a newer version of this one in the store, which it replaces. */
  replaces(before: Pick<RegistryEntry, 'source' | 'digest'>): boolean;
}

/** Id of the default model: the built-in one if none was set, or if the one that was set is gone. */
export function defaultIdOf(registry: Registry): string {
  return registry.models.find(({ id }) => id === registry.default)?.id ?? BUILTIN_ID;
}

/** All names that a new model cannot have, in lower case. `reserved`: names that the config gives to models. */
export function namesIn(registry: Registry, reserved: readonly string[]): Set<string> {
  const installed = registry.models.flatMap(({ id, aliases }) => [id, ...aliases]);
  return new Set([BUILTIN_ID, DEFAULT_NAME, ...installed, ...reserved].map((name) => name.toLowerCase()));
}

/** Returns the id for `name`, as findNamed. @throws SvcError MODEL_NOT_FOUND */
export function idOf(name: string, registry: Registry): string {
  if (name.toLowerCase() === BUILTIN_ID) return BUILTIN_ID;
  const found = findNamed(name, registry.models);
  if (found !== undefined) return found.id;
  const begun = taggedAs(name, registry.models);
  const likely = suggest(name, [BUILTIN_ID, ...registry.models.flatMap(({ id, aliases }) => [id, ...aliases])]);
  const several = begun.length > 1 ? `there are ${begun.map(({ id }) => id).join(', ')}` : undefined;
  throw new SvcError('MODEL_NOT_FOUND', `there is no model ${JSON.stringify(name)}`, {
    hint: several ?? (likely === undefined ? 'see what there is: svc model list' : `did you mean ${likely}?`),
    param: 'model',
  });
}

/** Returns the model to remove. @throws SvcError MODEL_NOT_FOUND; INVALID_REQUEST for the built-in model */
export function removable(name: string, registry: Registry): RegistryEntry {
  const id = idOf(name, registry);
  const found = registry.models.find((entry) => entry.id === id);
  if (found !== undefined) return found;
  throw new SvcError('INVALID_REQUEST', 'the built-in model cannot be removed', { param: 'model' });
}

/** Returns `name` if it is free; without a name, an id made from the file name. @throws SvcError INVALID_REQUEST */
export function newId(name: string | undefined, path: string, registry: Registry, reserved: readonly string[]): string {
  if (name === undefined) return modelIdFor(path, namesIn(registry, reserved));
  checkFree(name, registry, reserved);
  return name;
}

/** @throws SvcError INVALID_REQUEST */
export function checkFree(name: string, registry: Registry, reserved: readonly string[]): void {
  const taken = takenBy(name, registry, reserved);
  if (taken === undefined) return;
  throw nameTaken(taken, 'name', 'choose another name, or remove that one');
}

/**
 * Returns the id for a new model, and the stored model that it replaces, if any.
 * @throws SvcError INVALID_REQUEST if another model has its id and no other id can be chosen
 */
export function placeFor(
  model: NewModel,
  registry: Registry,
  reserved: readonly string[],
): { id: string; before: RegistryEntry | undefined } {
  const wanted = model.id.toLowerCase();
  const isNamed = (id: string): boolean =>
    id === wanted || (!model.isIdFixed && id.startsWith(wanted) && /^-\d+$/.test(id.slice(wanted.length)));
  const before = registry.models.find(
    (each) => each.path === null && isNamed(each.id.toLowerCase()) && model.replaces(each),
  );
  if (before !== undefined) return { id: before.id, before };
  if (!model.isIdFixed) return { id: freeId(model.id, namesIn(registry, reserved)), before };
  const taken = takenBy(model.id, registry, reserved);
  if (taken === undefined) return { id: model.id, before };
  throw nameTaken(taken, 'model', 'remove that one first');
}

interface Taken {
  /** The name as it can be removed. */
  readonly name: string;
  readonly why: string;
}

function takenBy(name: string, registry: Registry, reserved: readonly string[]): Taken | undefined {
  const isName = (each: string): boolean => each.toLowerCase() === name.toLowerCase();
  const holder = registry.models.find(({ id, aliases }) => [id, ...aliases].some(isName));
  if (holder !== undefined) return { name: holder.id, why: `a model with this name exists: ${holder.id}` };
  return reserved.some(isName) ? { name, why: `the config gives the name ${name} to another model` } : undefined;
}

function nameTaken({ name, why }: Taken, param: string, mend: string): SvcError {
  return new SvcError('INVALID_REQUEST', why, { hint: `${mend}: svc model rm ${name}`, param });
}

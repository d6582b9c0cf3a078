/** What a typed name means among the models that were added. */
import { SvcError } from '../protocol/errors.ts';
import { suggest } from '../protocol/suggest.ts';
import { BUILTIN_ID } from './builtin.ts';
import { modelIdFor } from './model-id.ts';
import type { Registry } from './registry.ts';

/** The default model's id: the built-in one's where none was set, or the one that was is not there any more. */
export function defaultIdOf(registry: Registry): string {
  return registry.models.find(({ id }) => id === registry.default)?.id ?? BUILTIN_ID;
}

/** The id that `name` means, whatever its case. @throws SvcError MODEL_NOT_FOUND */
export function idOf(name: string, registry: Registry): string {
  const ids = [BUILTIN_ID, ...registry.models.map(({ id }) => id)];
  const id = ids.find((each) => each.toLowerCase() === name.toLowerCase());
  if (id !== undefined) return id;
  const likely = suggest(name, ids);
  throw new SvcError('MODEL_NOT_FOUND', `there is no model ${JSON.stringify(name)}`, {
    hint: likely === undefined ? 'see what there is: svc model list' : `did you mean ${likely}?`,
    param: 'model',
  });
}

/** `name` where it is free, or an id made from the file's name. @throws SvcError INVALID_REQUEST */
export function newId(name: string | undefined, path: string, registry: Registry): string {
  if (name === undefined) return modelIdFor(path, new Set(registry.models.map(({ id }) => id.toLowerCase())));
  checkFree(name, registry);
  return name;
}

/** @throws SvcError INVALID_REQUEST */
export function checkFree(name: string, registry: Registry): void {
  const holder = registry.models.find(({ id }) => id.toLowerCase() === name.toLowerCase());
  if (holder === undefined) return;
  throw new SvcError('INVALID_REQUEST', `there is a model ${holder.id} already`, {
    hint: `choose another --name, or remove that one: svc model rm ${holder.id}`,
    param: 'name',
  });
}

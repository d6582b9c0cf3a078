/** LoRA adapters: those of a load, what it has found, and those that a request chooses. */
import type { EngineInfo, NativeLoadOptions } from '../../engine/addon.ts';
import { SvcError } from '../../protocol/errors.ts';
import { given } from '../../protocol/given.ts';
import type { GenerateRequest } from '../../protocol/generate.ts';
import type { ModelRecord } from '../../protocol/records.ts';
import type { EngineModel } from './engine-model.ts';

/** The load option; undefined: the model has none. */
export function adapterFilesOf({ adapters }: EngineModel): NativeLoadOptions['adapters'] {
  return adapters.length === 0 ? undefined : adapters.map(({ id, path }) => ({ id, path }));
}

/** Adds the errors that a load has found. */
export function tried(adapters: ModelRecord['adapters'], found: EngineInfo['adapters']): ModelRecord['adapters'] {
  return adapters?.map((adapter) => {
    const error = found.find(({ id }) => id === adapter.id)?.error ?? '';
    return error === '' ? adapter : { ...adapter, error };
  });
}

/**
 * Returns the request with the ids of the adapters as they are registered; llama-server's clients name them by their
 * place in the list. Throws INVALID_REQUEST for an adapter that the model does not have, or that is there twice.
 */
export function withAdapters(request: GenerateRequest, model: ModelRecord): GenerateRequest {
  const { lora } = request;
  if (lora === undefined) return request;
  const { id: name, adapters = [] } = model;
  const found = lora.map(({ id, scale }, index) => {
    // No id is a number.
    const adapter = /^\d+$/.test(id)
      ? adapters[Number(id)]
      : adapters.find((each) => each.id.toLowerCase() === id.toLowerCase());
    if (adapter === undefined) throw refused(index, `is ${JSON.stringify(id)}, which ${name} does not have`, adapters);
    if (adapter.error !== undefined) throw refused(index, `is ${adapter.id}, which ${adapter.error}`);
    return { id: adapter.id, scale };
  });
  const twice = found.findIndex(({ id }, index) => found.findIndex((other) => other.id === id) < index);
  if (twice !== -1) throw refused(twice, `is ${String(found[twice]?.id)}, which is there twice`);
  return { ...request, lora: found };
}

function refused(index: number, what: string, adapters?: ModelRecord['adapters']): SvcError {
  const ids = adapters?.map(({ id }) => id).join(', ');
  const hint =
    ids === undefined
      ? undefined
      : ids === ''
        ? 'it has no adapters; add one: svc model add --adapter-of MODEL FILE'
        : `it has ${ids}`;
  return new SvcError('INVALID_REQUEST', `lora[${String(index)}].id ${what}`, { param: 'lora', ...given({ hint }) });
}

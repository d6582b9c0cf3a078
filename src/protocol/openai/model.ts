/** Models in OpenAI's format. */
import { given } from '../given.ts';
import type { ListedModel } from '../model/listed.ts';
import type { ModelAdapter } from '../records.ts';

/** A name that requests may use as their model. Null and absent fields: not known. */
export interface Model extends Pick<ListedModel, 'id' | 'kind' | 'capabilities' | 'capabilities_tried'> {
  readonly object: 'model';
  /** Seconds since 1970. */
  readonly created: number;
  readonly owned_by: string;
  /** Context length in tokens; vLLM's name for the field. */
  readonly max_model_len: number | null;
  /** LoRA adapters, without their paths, which no client needs. */
  readonly adapters?: readonly Pick<ModelAdapter, 'id' | 'size_bytes' | 'error'>[];
}

export function toModel({ id, owner, kind, created_at, context_length, ...model }: ListedModel): Model {
  return {
    id,
    object: 'model',
    created: Math.floor(Date.parse(created_at) / 1000),
    owned_by: owner,
    kind,
    max_model_len: context_length,
    capabilities: model.capabilities,
    capabilities_tried: model.capabilities_tried,
    ...given({
      adapters: model.record?.adapters?.map(({ id, size_bytes, error }) => ({ id, size_bytes, ...given({ error }) })),
    }),
  };
}

/** Models in OpenAI's format. */
import { given } from '../given.ts';
import type { ListedModel } from '../model/listed.ts';

/** Null and absent fields: not known. */
export function toModel({ id, owner, kind, created_at, context_length, ...model }: ListedModel): object {
  return {
    id,
    object: 'model',
    created: Math.floor(Date.parse(created_at) / 1000),
    owned_by: owner,
    kind,
    // In tokens; vLLM's name for the field.
    max_model_len: context_length,
    capabilities: model.capabilities,
    capabilities_tried: model.capabilities_tried,
    ...given({
      // Without their paths, which no client needs.
      adapters: model.record?.adapters?.map(({ id, size_bytes, error }) => ({ id, size_bytes, ...given({ error }) })),
    }),
  };
}

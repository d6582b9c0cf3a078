/** What a model's file and the config say about requests that leave it open. */
import { readGgufHeader } from './gguf.ts';
import { recommendedSampling } from './recommended-sampling.ts';
import type { ModelDefaults } from '../../protocol/llama-server/props.ts';
import type { ModelRecord } from '../../protocol/records.ts';

/** Throws MODEL_INVALID, or the reason why the file cannot be read. */
export async function modelDefaults({ path, settings }: ModelRecord): Promise<ModelDefaults> {
  const { metadata } = await readGgufHeader(path);
  const template = metadata.get('tokenizer.chat_template')?.value;
  return {
    chat_template: typeof template === 'string' ? template : null,
    sampling: { ...(await recommendedSampling(path)), ...settings?.sampling },
  };
}

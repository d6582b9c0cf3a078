/** Test models with a replaced chat template. */
import { readFile } from 'node:fs/promises';
import { parseGgufHeader } from '../../src/models/gguf/gguf-header.ts';
import { textEntry } from '../models/raw-gguf.ts';
import { modelPath } from './native-engine.ts';

const ALIGNMENT = 32;

/** A model with `template` instead of its own, padded so that the weights stay aligned. */
export async function modelWithTemplate(
  template: string,
  model: 'tiny-llama' | 'tiny-long' = 'tiny-llama',
): Promise<Buffer> {
  const whole = await readFile(modelPath(model));
  const header = parseGgufHeader(whole, whole.length, model);
  if (header === 'more') throw new Error(`${model}: truncated GGUF header`);
  const { start, end } = header.metadata.get('tokenizer.chat_template')!;
  const longer = textEntry('tokenizer.chat_template', template).length - (end - start);
  const spaces = ' '.repeat(Math.ceil(longer / ALIGNMENT) * ALIGNMENT - longer);
  const entry = textEntry('tokenizer.chat_template', template + spaces);
  return Buffer.concat([whole.subarray(0, start), entry, whole.subarray(end)]);
}

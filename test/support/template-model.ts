/** Test models with a replaced chat template. */
import { readFile } from 'node:fs/promises';
import { parseGgufHeader } from '../../src/models/gguf/gguf-header.ts';
import { textEntry } from '../models/raw-gguf.ts';
import { modelPath } from './native-engine.ts';

const ALIGNMENT = 32;

/** tiny-llama with `template`, padded so that the weights stay aligned. */
export async function modelWithTemplate(template: string): Promise<Buffer> {
  const whole = await readFile(modelPath('tiny-llama'));
  const header = parseGgufHeader(whole, whole.length, 'tiny-llama');
  if (header === 'more') throw new Error('tiny-llama: truncated GGUF header');
  const { start, end } = header.metadata.get('tokenizer.chat_template')!;
  const longer = textEntry('tokenizer.chat_template', template).length - (end - start);
  const spaces = ' '.repeat(Math.ceil(longer / ALIGNMENT) * ALIGNMENT - longer);
  const entry = textEntry('tokenizer.chat_template', template + spaces);
  return Buffer.concat([whole.subarray(0, start), entry, whole.subarray(end)]);
}

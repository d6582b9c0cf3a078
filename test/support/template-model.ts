/** Models whose chat template is another one. */
import { readFile } from 'node:fs/promises';
import { parseGgufHeader } from '../../src/models/gguf-header.ts';
import { textEntry } from '../models/raw-gguf.ts';
import { modelPath } from './native-engine.ts';

const ALIGNMENT = 32;

/** tiny-llama with `template`; its weights lie where they were, or a multiple of the alignment later. */
export async function modelWithTemplate(template: string): Promise<Buffer> {
  const whole = await readFile(modelPath('tiny-llama'));
  const header = parseGgufHeader(whole, whole.length, 'tiny-llama');
  if (header === 'more') throw new Error('a file without an end');
  const { start, end } = header.metadata.get('tokenizer.chat_template')!;
  const longer = textEntry('tokenizer.chat_template', template).length - (end - start);
  const spaces = ' '.repeat(Math.ceil(longer / ALIGNMENT) * ALIGNMENT - longer);
  const entry = textEntry('tokenizer.chat_template', template + spaces);
  return Buffer.concat([whole.subarray(0, start), entry, whole.subarray(end)]);
}

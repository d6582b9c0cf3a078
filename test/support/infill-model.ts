/** A test model that fills in the middle of a text: none of the others has the tokens for it. */
import { readFile, writeFile } from 'node:fs/promises';
import { parseGgufHeader } from '../../src/models/gguf/gguf-header.ts';
import { numberEntry, textEntry, u64 } from '../models/raw-gguf.ts';
import { modelPath } from './native-engine.ts';

const ALIGNMENT = 32;
const KEY_COUNT_AT = 16;
const TEMPLATE = 'tokenizer.chat_template';
/** Control tokens of tiny-qwen2, in the order before, after and middle. */
export const GAP_TOKENS = ['<|endoftext|>', '<|im_start|>', '<|im_end|>'] as const;
const GAP_KEYS = ['fim_pre', 'fim_suf', 'fim_mid'].map((name) => `tokenizer.ggml.${name}_token_id`);
const FIRST_ID = 151_643;

/** Writes tiny-qwen2 with these tokens; its template is padded so that the weights stay aligned. */
export async function writeInfillModel(path: string): Promise<void> {
  const whole = await readFile(modelPath('tiny-qwen2'));
  const header = parseGgufHeader(whole, whole.length, 'tiny-qwen2');
  if (header === 'more') throw new Error('tiny-qwen2: truncated GGUF header');
  const { start, end, value } = header.metadata.get(TEMPLATE)!;
  const added = Buffer.concat(GAP_KEYS.map((key, index) => numberEntry(key, FIRST_ID + index)));
  const spaces = ' '.repeat(Math.ceil(added.length / ALIGNMENT) * ALIGNMENT - added.length);
  const head = Buffer.concat([
    whole.subarray(0, KEY_COUNT_AT),
    u64(header.metadata.size + GAP_KEYS.length),
    whole.subarray(KEY_COUNT_AT + 8, start),
  ]);
  if (typeof value !== 'string') throw new Error('tiny-qwen2: no chat template');
  await writeFile(path, Buffer.concat([head, textEntry(TEMPLATE, value + spaces), added, whole.subarray(end)]));
}

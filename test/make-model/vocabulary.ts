/** Reads a real vocabulary from llama.cpp's tree, to be copied byte for byte into another file. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseGgufHeader } from '../../src/models/gguf/gguf-header.ts';
import type { Entry } from './writer.ts';

export const TOKEN_TYPE = { normal: 1, unknown: 2, control: 3, userDefined: 4, unused: 5, byte: 6 } as const;

export interface Vocabulary {
  readonly size: number;
  /** TOKEN_TYPE by token id. */
  readonly types: Int32Array;
  /** End-of-sequence token; null if there is none. */
  readonly endOfSequence: number | null;
  /** Returns all `tokenizer.*` entries except `leftOut`. */
  entries(leftOut: ReadonlySet<string>): Entry[];
}

export async function readVocabulary(llamaSource: string, name: string): Promise<Vocabulary> {
  const path = join(llamaSource, 'models', `ggml-vocab-${name}.gguf`);
  const bytes = await readFile(path);
  const header = parseGgufHeader(bytes, bytes.length, path);
  if (header === 'more') throw new Error(`${path}: truncated GGUF header`);
  const types = header.metadata.get('tokenizer.ggml.token_type')?.value;
  const endOfSequence = header.metadata.get('tokenizer.ggml.eos_token_id')?.value;
  if (typeof types !== 'object') throw new Error(`${path} lacks token types`);
  return {
    size: types.count,
    types: new Int32Array(Uint8Array.from(bytes.subarray(types.start, types.end)).buffer),
    endOfSequence: typeof endOfSequence === 'number' ? endOfSequence : null,
    entries: (leftOut) =>
      [...header.metadata]
        .filter(([key]) => key.startsWith('tokenizer.') && !leftOut.has(key))
        .map(([, { start, end }]) => bytes.subarray(start, end)),
  };
}

/** A real vocabulary out of llama.cpp's tree, to be written through into another file byte for byte. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseGgufHeader } from '../../src/models/gguf-header.ts';
import type { Entry } from './writer.ts';

export const TOKEN_TYPE = { normal: 1, unknown: 2, control: 3, userDefined: 4, unused: 5, byte: 6 } as const;

export interface Vocabulary {
  readonly size: number;
  /** By token id, one of TOKEN_TYPE. */
  readonly types: Int32Array;
  /** Null: it has none. */
  readonly endOfSequence: number | null;
  /** Every `tokenizer.*` entry but those left out. */
  entries(leftOut: ReadonlySet<string>): Entry[];
}

export async function readVocabulary(llamaSource: string, name: string): Promise<Vocabulary> {
  const path = join(llamaSource, 'models', `ggml-vocab-${name}.gguf`);
  const bytes = await readFile(path);
  const header = parseGgufHeader(bytes, bytes.length, path);
  if (header === 'more') throw new Error(`${path} has no end`);
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

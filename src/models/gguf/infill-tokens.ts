/** Finds out whether a model can fill a gap in a text, by the rules of libllama's vocabulary. */
import { openModelFile } from './gguf.ts';
import type { GgufEntry } from './gguf-values.ts';

/** Keys of the token that ends the prompt; files of older converters have the second. */
const KEYS = ['tokenizer.ggml.fim_mid_token_id', 'tokenizer.ggml.middle_token_id'];

/**
 * Texts of the middle token, by which libllama finds it without such a key. A vocabulary that has it also has the
 * prefix and suffix tokens.
 */
const TEXTS = [
  '<|fim_middle|>',
  '<fim-middle>',
  '<fim_middle>',
  '<｜fim▁end｜>',
  '<MID>',
  '▁<MID>',
  '<|code_middle|>',
  '<|middle|>',
];

/** True if the vocabulary has the tokens. `metadata`: metadata of the file at `path`. Throws as inspectGguf. */
export async function hasInfillTokens(path: string, metadata: ReadonlyMap<string, GgufEntry>): Promise<boolean> {
  if (KEYS.some((key) => metadata.has(key))) return true;
  const tokens = metadata.get('tokenizer.ggml.tokens')?.value;
  if (typeof tokens !== 'object') return false;
  const file = await openModelFile(path);
  try {
    const bytes = Buffer.alloc(tokens.end - tokens.start);
    await file.read(bytes, 0, bytes.length, tokens.start);
    return TEXTS.some((text) => bytes.includes(counted(text)));
  } finally {
    await file.close();
  }
}

/** The text as the file has it: after its length. */
function counted(text: string): Buffer {
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(Buffer.byteLength(text)));
  return Buffer.concat([length, Buffer.from(text)]);
}

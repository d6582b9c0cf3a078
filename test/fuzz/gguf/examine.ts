/**
 * One execution: reads the header and makes a summary of it, as for every model file. Each step must give a result
 * consistent with the bytes, or throw MODEL_INVALID with one sentence. Anything else is a finding.
 */
import type { parseGgufHeader } from '../../../src/models/gguf/gguf-header.ts';
import type { GgufHeader } from '../../../src/models/gguf/gguf-values.ts';
import { summarize } from '../../../src/models/gguf/gguf.ts';
import { SvcError } from '../../../src/protocol/errors.ts';
import type { Input } from './mutate.ts';

export type Outcome = 'accepted' | 'refused' | 'more';

const NAME = 'the file';
const MOST_SENTENCE_CHARACTERS = 700;

/** @throws Error that describes the fault of the reader */
export function examine(parse: typeof parseGgufHeader, { bytes, fileBytes }: Input): Outcome {
  const header = refusalOf(() => parse(bytes, fileBytes, NAME));
  if (header === null) return 'refused';
  if (header === 'more') {
    if (bytes.length === fileBytes) throw new Error('asks for more than the whole file');
    return 'more';
  }
  checkBorneOut(header, bytes, fileBytes);
  refusalOf(() => summarize([{ path: NAME, header, sizeBytes: fileBytes, modifiedAtMs: 0 }]));
  return 'accepted';
}

/** Returns the result of `act`, or null if it refused the file properly. */
function refusalOf<Result>(act: () => Result): Result | null {
  try {
    return act();
  } catch (error) {
    if (!(error instanceof SvcError) || error.code !== 'MODEL_INVALID') throw error;
    const { message } = error;
    if (!message.startsWith(`${NAME} `) || message.length > MOST_SENTENCE_CHARACTERS || /\p{Cc}/u.test(message)) {
      throw new Error(`refuses with ${JSON.stringify(message)}`, { cause: error });
    }
    return null;
  }
}

function checkBorneOut({ metadata, tensors }: GgufHeader, bytes: Uint8Array, fileBytes: number): void {
  const within = (start: number, end: number, limit: number): boolean =>
    Number.isSafeInteger(start) && Number.isSafeInteger(end) && start >= 0 && start <= end && end <= limit;
  // The results must not be larger than the bytes that they were made from.
  let made = 0;
  let last = 0;
  for (const [key, { value, start, end }] of metadata) {
    if (!within(start, end, bytes.length) || start < last) throw new Error(`has ${key} outside of the header`);
    last = end;
    made += key.length + (typeof value === 'string' ? value.length : 0);
    if (typeof value === 'object' && (!within(value.start, value.end, end) || value.count > value.end - value.start)) {
      throw new Error(`has the list ${key} outside of its entry`);
    }
  }
  let next = last;
  for (const { name, shape, offset, bytes: size } of tensors) {
    made += name.length + shape.length;
    if (!within(offset, offset + size, fileBytes) || offset < next) throw new Error(`has ${name} outside of its place`);
    if (!shape.every((length) => Number.isSafeInteger(length) && length > 0))
      throw new Error(`has ${name} of no shape`);
    next = offset + size;
  }
  if (made > bytes.length) throw new Error(`makes ${made} characters of ${bytes.length} bytes`);
}

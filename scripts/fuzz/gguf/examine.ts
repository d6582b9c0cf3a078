/**
 * One execution: the header is read, and of what was read a summary is made, as for every model file.
 * Either gives a result that the bytes bear out, or throws MODEL_INVALID with a sentence. Anything else
 * is a finding.
 */
import type { parseGgufHeader, GgufHeader } from '../../../src/models/gguf-header.ts';
import { summarize } from '../../../src/models/gguf.ts';
import { SvcError } from '../../../src/protocol/errors.ts';
import type { Input } from './mutate.ts';

export type Outcome = 'accepted' | 'refused' | 'more';

const NAME = 'the file';
const MOST_SENTENCE_CHARACTERS = 700;

/** @throws Error that says what is wrong with the reader */
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

/** Null: it was refused, and in the way in which files are refused. */
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
  // Nothing is made that is larger than what it was made of.
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

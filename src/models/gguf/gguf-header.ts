/**
 * Parser of a GGUF header: metadata and tensor descriptions, from untrusted bytes.
 *
 * The parser is pure. It takes the first bytes of a file and the file's size. It returns the header, or `more` when
 * the header continues beyond these bytes, or throws a SvcError that describes the fault in one sentence. It rejects
 * what libllama's loader would reject, before libllama sees the file: malformed bytes here, impossible models in
 * gguf-checks.ts. Rules that keep a hostile file harmless:
 * - no number from the file is used before it was compared with what the file can hold: lengths are
 *   checked against the remaining bytes, counts against the smallest size of an item;
 * - sizes are exact numbers (below 2^53); larger ones are rejected;
 * - nothing is allocated by a count: arrays and long texts stay in the file, as a span of bytes;
 * - libllama reads names as they are read here: libllama ends names at a NUL, so a name with a NUL is rejected.
 */
import { FIXED_VALUES, TENSOR_TYPES, VALUE_TYPE, type FixedValue } from './ggml-types.ts';
import { checkContents } from './gguf-checks.ts';
import { Cursor, MORE, quoted } from './gguf-cursor.ts';
import { GGUF_LIMITS } from './gguf-limits.ts';
import type { GgufArray, GgufEntry, GgufHeader, GgufTensor } from './gguf-values.ts';

const MAGIC = 'GGUF';
const DEFAULT_ALIGNMENT = 32;
/** Length, at least one byte of key, type, at least one byte of value. */
const SMALLEST_ENTRY_BYTES = 8 + 1 + 4 + 1;
/** Length, number of dimensions, type, offset. */
const SMALLEST_TENSOR_BYTES = 8 + 4 + 4 + 8;

/**
 * `name` stands for the file in messages.
 * @throws SvcError MODEL_INVALID
 */
export function parseGgufHeader(bytes: Uint8Array, fileBytes: number, name: string): GgufHeader | 'more' {
  const cursor = new Cursor(bytes, fileBytes, name);
  try {
    const header = readHeader(cursor);
    checkContents({ ...header, bytes, invalid: (what, hint) => cursor.invalid(what, hint) });
    return header;
  } catch (thrown) {
    if (thrown === MORE) return 'more';
    throw thrown;
  }
}

function readHeader(cursor: Cursor): GgufHeader {
  checkMagic(cursor);
  const version = cursor.uint32();
  if ((version & 0xffff) === 0) throw cursor.invalid('was written for big-endian machines');
  if (version < 2 || version > 3) throw cursor.invalid(`is GGUF version ${version}; versions 2 and 3 can be loaded`);
  const tensorCount = cursor.count('tensors', SMALLEST_TENSOR_BYTES, GGUF_LIMITS.tensors);
  const entryCount = cursor.count('metadata entries', SMALLEST_ENTRY_BYTES, GGUF_LIMITS.entries);

  const metadata = new Map<string, GgufEntry>();
  for (let index = 0; index < entryCount; index += 1) {
    const start = cursor.offset;
    const key = cursor.string('a metadata key', GGUF_LIMITS.keyBytes);
    if (key === '') throw cursor.invalid(`has an empty metadata key (entry ${index})`);
    checkName(key, 'a metadata key', cursor);
    if (metadata.has(key)) throw cursor.invalid(`has the metadata key ${quoted(key)} twice`);
    const type = cursor.uint32();
    const value = readValue(cursor, key, type);
    metadata.set(key, { type, value, start, end: cursor.offset });
  }

  const alignment = alignmentOf(metadata, cursor);
  const tensors: GgufTensor[] = [];
  const names = new Set<string>();
  let nextOffset = 0;
  for (let index = 0; index < tensorCount; index += 1) {
    const tensor = readTensor(cursor);
    if (names.has(tensor.name)) throw cursor.invalid(`has the tensor ${quoted(tensor.name)} twice`);
    if (tensor.offset !== nextOffset) {
      throw cursor.invalid(`places tensor ${quoted(tensor.name)} at ${tensor.offset} where ${nextOffset} is expected`);
    }
    names.add(tensor.name);
    tensors.push(tensor);
    nextOffset = padded(nextOffset + tensor.bytes, alignment);
    if (!Number.isSafeInteger(nextOffset)) throw cursor.invalid('describes more data than any file can hold');
  }

  const dataStart = padded(cursor.offset, alignment);
  const last = tensors.at(-1);
  if (last !== undefined && dataStart + last.offset + last.bytes > cursor.fileBytes) {
    throw cursor.invalid(
      `is cut short: its tensors need ${dataStart + last.offset + last.bytes} bytes and the file has ${cursor.fileBytes}`,
      'the download or copy did not finish: fetch the file again',
    );
  }
  return { version, metadata, tensors: tensors.map((tensor) => ({ ...tensor, offset: dataStart + tensor.offset })) };
}

function checkMagic(cursor: Cursor): void {
  if (cursor.fileBytes === 0) throw cursor.invalid('is empty');
  const head = cursor.peek(64);
  if (head.startsWith(MAGIC)) {
    cursor.skip(MAGIC.length);
    return;
  }
  const hint = 'svc runs models in the GGUF format';
  if (head.startsWith('version https://git-lfs')) {
    throw cursor.invalid('is a Git LFS pointer and not the model itself', 'fetch the file with `git lfs pull`');
  }
  if (/^\s*<(!doctype|html)/i.test(head)) {
    throw cursor.invalid('is a web page and not a model', 'the download returned a web page: check the URL');
  }
  if (head.startsWith('FUGG')) throw cursor.invalid('was written for big-endian machines');
  if (MAGIC.startsWith(head)) throw cursor.invalid('is cut short in its first bytes');
  throw cursor.invalid('is not a GGUF file: it does not begin with the letters GGUF', hint);
}

/** Rejects control characters: libllama would not see the text after a NUL. */
function checkName(name: string, what: string, cursor: Cursor): void {
  for (let index = 0; index < name.length; index += 1) {
    const code = name.charCodeAt(index);
    if (code < 0x20 || code === 0x7f) throw cursor.invalid(`has ${what} with control characters: ${quoted(name)}`);
  }
}

function readValue(cursor: Cursor, key: string, type: number): GgufEntry['value'] {
  if (type === VALUE_TYPE.array) return readArray(cursor, key);
  if (type === VALUE_TYPE.string) return readText(cursor, key);
  const { bytes, read } = fixedValue(cursor, key, type);
  return read(cursor.view(bytes));
}

function fixedValue(cursor: Cursor, key: string, type: number): FixedValue {
  const found = FIXED_VALUES.get(type);
  if (found !== undefined) return found;
  throw cursor.invalid(`gives metadata ${quoted(key)} the type ${type}, which does not exist`);
}

function readText(cursor: Cursor, key: string): string | GgufArray {
  const count = cursor.length(`the value of ${quoted(key)}`);
  const start = cursor.skip(count);
  const end = cursor.offset;
  return count > GGUF_LIMITS.textBytes ? { elementType: VALUE_TYPE.uint8, count, start, end } : cursor.text(start, end);
}

function readArray(cursor: Cursor, key: string): GgufArray {
  const elementType = cursor.uint32();
  if (elementType === VALUE_TYPE.array) throw cursor.invalid(`nests arrays in metadata ${quoted(key)}`);
  const elementBytes = elementType === VALUE_TYPE.string ? undefined : fixedValue(cursor, key, elementType).bytes;
  // A string is at least its length.
  const count = cursor.count(`elements in ${quoted(key)}`, elementBytes ?? 8, Number.MAX_SAFE_INTEGER);
  const start = cursor.offset;
  if (elementBytes !== undefined) cursor.skip(count * elementBytes);
  else {
    // Built once, not per element: there may be millions.
    const what = `a string in ${quoted(key)}`;
    for (let index = 0; index < count; index += 1) cursor.skip(cursor.length(what));
  }
  return { elementType, count, start, end: cursor.offset };
}

/** Returns a tensor whose `offset` is still relative to the start of the data. */
function readTensor(cursor: Cursor): GgufTensor {
  const name = cursor.string('a tensor name', GGUF_LIMITS.tensorNameBytes);
  checkName(name, 'a tensor name', cursor);
  const dimensions = cursor.uint32();
  if (dimensions > GGUF_LIMITS.dimensions)
    throw cursor.invalid(`gives tensor ${quoted(name)} ${dimensions} dimensions`);
  const shape: number[] = [];
  let elements = 1;
  for (let index = 0; index < dimensions; index += 1) {
    const length = cursor.uint64();
    // libllama may divide by it.
    if (length === 0) throw cursor.invalid(`gives tensor ${quoted(name)} an empty dimension`);
    shape.push(length);
    elements *= length;
    if (!Number.isSafeInteger(elements)) throw cursor.invalid(`gives tensor ${quoted(name)} an impossible shape`);
  }
  const typeNumber = cursor.uint32();
  const type = TENSOR_TYPES.get(typeNumber);
  if (type === undefined)
    throw cursor.invalid(`stores tensor ${quoted(name)} as type ${typeNumber}, which is not known`);
  if ((shape[0] ?? 1) % type.blockLength !== 0) {
    throw cursor.invalid(
      `has rows of ${shape[0] ?? 1} values in tensor ${quoted(name)}, which ${type.name} cannot store`,
    );
  }
  const bytes = (elements / type.blockLength) * type.blockBytes;
  if (!Number.isSafeInteger(bytes)) throw cursor.invalid(`gives tensor ${quoted(name)} an impossible shape`);
  return { name, shape, type, offset: cursor.uint64(), bytes };
}

function alignmentOf(metadata: ReadonlyMap<string, GgufEntry>, cursor: Cursor): number {
  const { type, value } = metadata.get('general.alignment') ?? { type: VALUE_TYPE.uint32, value: DEFAULT_ALIGNMENT };
  const isPowerOfTwo = typeof value === 'number' && value >= 1 && Number.isInteger(Math.log2(value));
  if (type !== VALUE_TYPE.uint32 || !isPowerOfTwo || value > GGUF_LIMITS.alignment) {
    throw cursor.invalid(`has an alignment that is not a power of two up to ${GGUF_LIMITS.alignment}`);
  }
  return value;
}

function padded(offset: number, alignment: number): number {
  return Math.ceil(offset / alignment) * alignment;
}

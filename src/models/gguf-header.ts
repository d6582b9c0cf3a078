/**
 * The header of a GGUF file: metadata and tensor descriptions, from bytes that nobody vouches for.
 *
 * The parser is pure. It is given the first bytes of a file and the file's size, and answers with
 * the header, with `more` when the header goes on beyond these bytes, or with a SvcError that says
 * in a sentence what is wrong. It refuses what libllama's own loader would refuse, before libllama
 * sees the file. Three rules keep a hostile file harmless:
 * - no number from the file is used before it was compared with what the file can hold: lengths are
 *   checked against the bytes that remain, counts against the smallest size an item can have;
 * - sizes are numbers only while they are exact (below 2^53), and whatever is larger is refused;
 * - nothing is allocated by a count: arrays stay where they are, as a span of the bytes.
 */
import { TENSOR_TYPES, VALUE_BYTES, VALUE_TYPE, type TensorType } from './ggml-types.ts';
import { SvcError } from '../protocol/errors.ts';

/** An array value, left in place: `start` and `end` are the bytes of its elements in the file. */
export interface GgufArray {
  readonly elementType: number;
  readonly count: number;
  readonly start: number;
  readonly end: number;
}

export interface GgufEntry {
  /** 64-bit integers that a number cannot hold exactly are bigints. */
  readonly value: string | number | bigint | boolean | GgufArray;
  /** The bytes of the entry in the file: key, type and value. */
  readonly start: number;
  readonly end: number;
}

export interface GgufTensor {
  readonly name: string;
  readonly shape: readonly number[];
  readonly type: TensorType;
  /** From the beginning of the file. */
  readonly offset: number;
  readonly bytes: number;
}

export interface GgufHeader {
  readonly version: number;
  readonly metadata: ReadonlyMap<string, GgufEntry>;
  readonly tensors: readonly GgufTensor[];
}

/** Far above any real model; what exceeds one is damaged or hostile. */
export const GGUF_LIMITS = {
  headerBytes: 128 * 1024 * 1024,
  entries: 65_536,
  tensors: 65_536,
  keyBytes: 65_535,
  tensorNameBytes: 63,
  dimensions: 4,
  alignment: 1024 * 1024,
} as const;

const MAGIC = 'GGUF';
const DEFAULT_ALIGNMENT = 32;
/** Length, at least one byte of key, type, at least one byte of value. */
const SMALLEST_ENTRY_BYTES = 8 + 1 + 4 + 1;
/** Length, number of dimensions, type, offset. */
const SMALLEST_TENSOR_BYTES = 8 + 4 + 4 + 8;

const PER_TOKEN: readonly [key: string, types: readonly number[]][] = [
  ['tokenizer.ggml.tokens', [VALUE_TYPE.string]],
  ['tokenizer.ggml.scores', [VALUE_TYPE.float32]],
  ['tokenizer.ggml.token_type', [VALUE_TYPE.int32, VALUE_TYPE.uint32]],
];

/** Thrown inside the parser when the given bytes end within the header. */
const MORE = new Error('the header goes on');

/**
 * `name` stands for the file in messages.
 * @throws SvcError MODEL_INVALID
 */
export function parseGgufHeader(bytes: Uint8Array, fileBytes: number, name: string): GgufHeader | 'more' {
  const cursor = new Cursor(bytes, fileBytes, name);
  try {
    return readHeader(cursor);
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
    if (metadata.has(key)) throw cursor.invalid(`has the metadata key ${quoted(key)} twice`);
    const value = readValue(cursor, key);
    metadata.set(key, { value, start, end: cursor.offset });
  }

  checkPerToken(metadata, cursor);
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
    throw cursor.invalid('is a web page and not a model', 'the download gave a page: look at the address');
  }
  if (head.startsWith('FUGG')) throw cursor.invalid('was written for big-endian machines');
  if (MAGIC.startsWith(head)) throw cursor.invalid('is cut short in its first bytes');
  throw cursor.invalid('is not a GGUF file: it does not begin with the letters GGUF', hint);
}

function readValue(cursor: Cursor, key: string): GgufEntry['value'] {
  const type = cursor.uint32();
  if (type === VALUE_TYPE.array) return readArray(cursor, key);
  switch (type) {
    case VALUE_TYPE.uint8:
      return cursor.uint8();
    case VALUE_TYPE.int8:
      return (cursor.uint8() << 24) >> 24;
    case VALUE_TYPE.uint16:
      return cursor.view(2).getUint16(0, true);
    case VALUE_TYPE.int16:
      return cursor.view(2).getInt16(0, true);
    case VALUE_TYPE.uint32:
      return cursor.uint32();
    case VALUE_TYPE.int32:
      return cursor.view(4).getInt32(0, true);
    case VALUE_TYPE.float32:
      return cursor.view(4).getFloat32(0, true);
    case VALUE_TYPE.bool:
      return cursor.uint8() !== 0;
    case VALUE_TYPE.string:
      return cursor.string(`the value of ${quoted(key)}`, GGUF_LIMITS.headerBytes);
    case VALUE_TYPE.uint64:
      return exact(cursor.view(8).getBigUint64(0, true));
    case VALUE_TYPE.int64:
      return exact(cursor.view(8).getBigInt64(0, true));
    case VALUE_TYPE.float64:
      return cursor.view(8).getFloat64(0, true);
    default:
      throw cursor.invalid(`gives metadata ${quoted(key)} the type ${type}, which does not exist`);
  }
}

function readArray(cursor: Cursor, key: string): GgufArray {
  const elementType = cursor.uint32();
  if (elementType === VALUE_TYPE.array) throw cursor.invalid(`nests arrays in metadata ${quoted(key)}`);
  const elementBytes = VALUE_BYTES.get(elementType);
  if (elementBytes === undefined && elementType !== VALUE_TYPE.string) {
    throw cursor.invalid(`gives metadata ${quoted(key)} the type ${elementType}, which does not exist`);
  }
  // A string is at least its length.
  const count = cursor.count(`elements in ${quoted(key)}`, elementBytes ?? 8, Number.MAX_SAFE_INTEGER);
  const start = cursor.offset;
  if (elementBytes !== undefined) cursor.skip(count * elementBytes);
  else for (let index = 0; index < count; index += 1) cursor.skip(cursor.length(`a string in ${quoted(key)}`));
  return { elementType, count, start, end: cursor.offset };
}

/** Its `offset` is still from the beginning of the data. */
function readTensor(cursor: Cursor): GgufTensor {
  const name = cursor.string('a tensor name', GGUF_LIMITS.tensorNameBytes);
  const dimensions = cursor.uint32();
  if (dimensions > GGUF_LIMITS.dimensions)
    throw cursor.invalid(`gives tensor ${quoted(name)} ${dimensions} dimensions`);
  const shape: number[] = [];
  let elements = 1;
  for (let index = 0; index < dimensions; index += 1) {
    const length = cursor.uint64();
    // Who divides by it would not be asked.
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

/** libllama reads these as the type they should have, one for each token, whatever the file says they are. */
function checkPerToken(metadata: ReadonlyMap<string, GgufEntry>, cursor: Cursor): void {
  const tokens = metadata.get('tokenizer.ggml.tokens')?.value;
  for (const [key, types] of PER_TOKEN) {
    const value = metadata.get(key)?.value;
    if (value === undefined) continue;
    if (typeof value !== 'object' || !types.includes(value.elementType)) {
      throw cursor.invalid(`has values of the wrong type in ${quoted(key)}`);
    }
    if (typeof tokens === 'object' && value.count < tokens.count) {
      throw cursor.invalid(`has ${value.count} values in ${quoted(key)} for ${tokens.count} tokens`);
    }
  }
}

function alignmentOf(metadata: ReadonlyMap<string, GgufEntry>, cursor: Cursor): number {
  const alignment = metadata.get('general.alignment')?.value ?? DEFAULT_ALIGNMENT;
  if (
    typeof alignment !== 'number' ||
    alignment < 1 ||
    alignment > GGUF_LIMITS.alignment ||
    !Number.isInteger(Math.log2(alignment))
  ) {
    throw cursor.invalid('has an alignment that is not a power of two');
  }
  return alignment;
}

function padded(offset: number, alignment: number): number {
  return Math.ceil(offset / alignment) * alignment;
}

function exact(value: bigint): number | bigint {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

/** A name out of the file, fit for one line of a terminal. */
function quoted(text: string): string {
  const short = text.length > 80 ? `${text.slice(0, 80)}…` : text;
  return JSON.stringify(short).replace(/[\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g, '?');
}

/** A position in the bytes. Each read is checked against the file first, then against the bytes at hand. */
class Cursor {
  readonly fileBytes: number;
  offset = 0;
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  readonly #name: string;

  constructor(bytes: Uint8Array, fileBytes: number, name: string) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#name = name;
    this.fileBytes = fileBytes;
  }

  invalid(what: string, hint?: string): SvcError {
    return new SvcError('MODEL_INVALID', `${this.#name} ${what}`, hint === undefined ? {} : { hint });
  }

  /** The first bytes as text, without moving; shorter only when the file is. */
  peek(length: number): string {
    const end = Math.min(length, this.fileBytes);
    if (end > this.#bytes.length) throw MORE;
    return String.fromCharCode(...this.#bytes.subarray(0, end));
  }

  /** REQUIRES: `length` is a safe integer. */
  skip(length: number): number {
    const start = this.offset;
    const end = start + length;
    if (end > this.fileBytes) throw this.invalid('is cut short inside its header', 'fetch the file again');
    if (end > GGUF_LIMITS.headerBytes) throw this.invalid(`has a header of more than ${GGUF_LIMITS.headerBytes} bytes`);
    if (end > this.#bytes.length) throw MORE;
    this.offset = end;
    return start;
  }

  view(length: number): DataView {
    const start = this.skip(length);
    return new DataView(this.#view.buffer, this.#view.byteOffset + start, length);
  }

  uint8(): number {
    return this.#view.getUint8(this.skip(1));
  }

  uint32(): number {
    return this.#view.getUint32(this.skip(4), true);
  }

  /** Infinity when a number cannot hold it. */
  uint64(): number {
    const start = this.skip(8);
    const high = this.#view.getUint32(start + 4, true);
    return high > 0x1f_ffff ? Infinity : high * 0x1_0000_0000 + this.#view.getUint32(start, true);
  }

  /** How many items of at least `itemBytes` follow. */
  count(what: string, itemBytes: number, limit: number): number {
    const count = this.uint64();
    if (count > limit || count * itemBytes > this.fileBytes - this.offset) {
      const claim = Number.isFinite(count) ? String(count) : 'more than 2^53';
      throw this.invalid(`is damaged: it claims ${claim} ${what}, more than can be in it`);
    }
    return count;
  }

  length(what: string): number {
    const length = this.uint64();
    if (length > this.fileBytes - this.offset) {
      throw this.invalid(`is cut short or damaged: ${what} is longer than the rest of the file`);
    }
    return length;
  }

  string(what: string, limit: number): string {
    const length = this.length(what);
    if (length > limit) throw this.invalid(`is damaged: ${what} is ${length} bytes long`);
    const start = this.skip(length);
    return utf8.decode(this.#bytes.subarray(start, start + length));
  }
}

const utf8 = new TextDecoder();

/** Writes a GGUF file sequentially: the header, then the data of each tensor, in pieces of any size. */
import { open, rename, rm, type FileHandle } from 'node:fs/promises';
import { VALUE_TYPE } from '../../src/models/gguf/ggml-types.ts';
import { encodedBytes, TYPE_NUMBER, type Encoding } from './quantize.ts';

const ALIGNMENT = 32;
/** Pieces are collected into writes of this size. */
const WRITE_BYTES = 4 * 1024 * 1024;

export interface TensorPlan {
  readonly name: string;
  readonly shape: readonly number[];
  readonly encoding: Encoding;
}

/** One encoded metadata entry. */
export type Entry = Uint8Array;

export const entry = {
  string: (key: string, value: string): Entry => Buffer.concat([head(key, VALUE_TYPE.string), string(value)]),
  strings: (key: string, values: readonly string[]): Entry =>
    Buffer.concat([
      head(key, VALUE_TYPE.array),
      uint32(VALUE_TYPE.string),
      uint64(values.length),
      ...values.map(string),
    ]),
  uint32: (key: string, value: number): Entry => Buffer.concat([head(key, VALUE_TYPE.uint32), uint32(value)]),
  uint32s: (key: string, values: readonly number[]): Entry =>
    Buffer.concat([
      head(key, VALUE_TYPE.array),
      uint32(VALUE_TYPE.uint32),
      uint64(values.length),
      ...values.map(uint32),
    ]),
  float32: (key: string, value: number): Entry => Buffer.concat([head(key, VALUE_TYPE.float32), float32(value)]),
  float32s: (key: string, values: readonly number[]): Entry =>
    Buffer.concat([
      head(key, VALUE_TYPE.array),
      uint32(VALUE_TYPE.float32),
      uint64(values.length),
      ...values.map(float32),
    ]),
  bool: (key: string, value: boolean): Entry => Buffer.concat([head(key, VALUE_TYPE.bool), Buffer.of(value ? 1 : 0)]),
};

/** Writes the file under a temporary name and renames it when complete; a failure leaves no file. */
export async function writeGguf(
  path: string,
  entries: readonly Entry[],
  tensors: readonly TensorPlan[],
  data: (tensor: TensorPlan) => Iterable<Uint8Array>,
): Promise<void> {
  const unfinished = `${path}.${process.pid}.part`;
  const file = await open(unfinished, 'w');
  try {
    const out = new Gatherer(file);
    await out.write(header(entries, tensors));
    for (const tensor of tensors) {
      await out.pad(ALIGNMENT);
      const end = out.offset + tensorBytes(tensor);
      for (const piece of data(tensor)) await out.write(piece);
      if (out.offset !== end) throw new Error(`${tensor.name}: ${out.offset - end} bytes too many`);
    }
    await out.flush();
    await file.sync();
    await file.close();
    await rename(unfinished, path);
  } catch (error) {
    await file.close().catch(() => undefined);
    await rm(unfinished, { force: true });
    throw error;
  }
}

function header(entries: readonly Entry[], tensors: readonly TensorPlan[]): Uint8Array {
  const parts: Uint8Array[] = [
    Buffer.from('GGUF'),
    uint32(3),
    uint64(tensors.length),
    uint64(entries.length),
    ...entries,
  ];
  let offset = 0;
  for (const tensor of tensors) {
    parts.push(string(tensor.name), uint32(tensor.shape.length), ...tensor.shape.map(uint64));
    parts.push(uint32(TYPE_NUMBER[tensor.encoding]), uint64(offset));
    offset = Math.ceil((offset + tensorBytes(tensor)) / ALIGNMENT) * ALIGNMENT;
  }
  return Buffer.concat(parts);
}

function tensorBytes({ encoding, shape }: TensorPlan): number {
  return encodedBytes(
    encoding,
    shape.reduce((product, length) => product * length, 1),
  );
}

class Gatherer {
  offset = 0;
  readonly #file: FileHandle;
  #pieces: Uint8Array[] = [];
  #gathered = 0;

  constructor(file: FileHandle) {
    this.#file = file;
  }

  async write(piece: Uint8Array): Promise<void> {
    this.#pieces.push(piece);
    this.#gathered += piece.length;
    this.offset += piece.length;
    if (this.#gathered >= WRITE_BYTES) await this.flush();
  }

  async pad(alignment: number): Promise<void> {
    await this.write(Buffer.alloc((alignment - (this.offset % alignment)) % alignment));
  }

  async flush(): Promise<void> {
    await this.#file.writeFile(Buffer.concat(this.#pieces));
    this.#pieces = [];
    this.#gathered = 0;
  }
}

function head(key: string, type: number): Buffer {
  return Buffer.concat([string(key), uint32(type)]);
}

function string(text: string): Buffer {
  const bytes = Buffer.from(text);
  return Buffer.concat([uint64(bytes.length), bytes]);
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function uint64(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}

function float32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return bytes;
}

/** Builds GGUF bytes, valid by default, with any part overridable by tests. */
import { VALUE_TYPE } from '../../src/models/gguf/ggml-types.ts';

export function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value >>> 0);
  return bytes;
}

export function u16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16LE(value & 0xffff);
  return bytes;
}

export function u64(value: number | bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt.asUintN(64, BigInt(value)));
  return bytes;
}

/** A length-prefixed string; `length` may be false. */
export function string(text: string, length: number | bigint = Buffer.byteLength(text)): Buffer {
  return Buffer.concat([u64(length), Buffer.from(text)]);
}

export function textEntry(key: string, value: string): Buffer {
  return Buffer.concat([string(key), u32(VALUE_TYPE.string), string(value)]);
}

export function numberEntry(key: string, value: number): Buffer {
  return Buffer.concat([string(key), u32(VALUE_TYPE.uint32), u32(value)]);
}

/** A metadata entry with a raw value. */
export function entry(key: string, type: number, value: Uint8Array): Buffer {
  return Buffer.concat([string(key), u32(type), value]);
}

/** Metadata entries of each part of a split model. */
export function partEntries(index: number, count: number, tensors: number): Buffer[] {
  return [
    entry('split.no', VALUE_TYPE.uint16, u16(index)),
    entry('split.count', VALUE_TYPE.uint16, u16(count)),
    entry('split.tensors.count', VALUE_TYPE.int32, u32(tensors)),
  ];
}

/** An array entry; `count` may be false, `elements` are the bytes that follow. */
export function arrayEntry(
  key: string,
  elementType: number,
  count: number | bigint,
  elements: Uint8Array = Buffer.of(),
): Buffer {
  return Buffer.concat([string(key), u32(VALUE_TYPE.array), u32(elementType), u64(count), elements]);
}

export interface TensorParts {
  readonly name?: string;
  readonly shape?: readonly (number | bigint)[];
  readonly dimensions?: number;
  readonly type?: number;
  readonly offset?: number | bigint;
}

/** Description of a tensor; 32 F32 values by default. */
export function tensor({
  name = 'a',
  shape = [32],
  dimensions = shape.length,
  type = 0,
  offset = 0,
}: TensorParts = {}): Buffer {
  return Buffer.concat([string(name), u32(dimensions), ...shape.map(u64), u32(type), u64(offset)]);
}

export interface FileParts {
  readonly magic?: string;
  readonly version?: number;
  readonly entries?: readonly Uint8Array[];
  readonly entryCount?: number | bigint;
  readonly tensors?: readonly Uint8Array[];
  readonly tensorCount?: number | bigint;
  readonly dataBytes?: number;
  readonly alignment?: number;
}

export const LLAMA = textEntry('general.architecture', 'llama');

/** A whole file; by default with one tensor of 128 bytes and the architecture. */
export function gguf({
  magic = 'GGUF',
  version = 3,
  entries = [LLAMA],
  entryCount = entries.length,
  tensors = [tensor()],
  tensorCount = tensors.length,
  dataBytes = 128,
  alignment = 32,
}: FileParts = {}): Buffer {
  const head = Buffer.concat([
    Buffer.from(magic),
    u32(version),
    u64(tensorCount),
    u64(entryCount),
    ...entries,
    ...tensors,
  ]);
  return Buffer.concat([
    head,
    Buffer.alloc((alignment - (head.length % alignment)) % alignment),
    Buffer.alloc(dataBytes),
  ]);
}

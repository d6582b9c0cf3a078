/**
 * Splits a GGUF file as llama-gguf-split does: all metadata in the first part; `split.no`, `split.count` and
 * `split.tensors.count` in every part; tensors in their original order.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { TENSOR_TYPES, VALUE_TYPE } from '../../src/models/gguf/ggml-types.ts';
import { readGgufHeader } from '../../src/models/gguf/gguf.ts';
import type { GgufTensor } from '../../src/models/gguf/gguf-values.ts';
import { gguf, string, tensor, u32 } from '../models/raw-gguf.ts';

const ALIGNMENT = 32;

export interface SplitOptions {
  readonly count: number;
  /** As `--no-tensor-first-split`: the first part holds only metadata. */
  readonly isFirstEmpty?: boolean;
}

/** Writes the parts and returns their paths in order. */
export async function splitGguf(
  path: string,
  folder: string,
  stem: string,
  { count, isFirstEmpty = false }: SplitOptions,
): Promise<string[]> {
  await mkdir(folder, { recursive: true });
  const bytes = await readFile(path);
  const { metadata, tensors } = await readGgufHeader(path);
  const holders = isFirstEmpty ? count - 1 : count;
  const share = Math.ceil(tensors.length / holders);
  const paths: string[] = [];
  for (let index = 0; index < count; index += 1) {
    const place = isFirstEmpty ? index - 1 : index;
    const own = place < 0 ? [] : tensors.slice(place * share, (place + 1) * share);
    const entries = [
      ...(index === 0 ? Array.from(metadata.values(), ({ start, end }) => bytes.subarray(start, end)) : []),
      entry('split.no', VALUE_TYPE.uint16, u32(index).subarray(0, 2)),
      entry('split.count', VALUE_TYPE.uint16, u32(count).subarray(0, 2)),
      entry('split.tensors.count', VALUE_TYPE.int32, u32(tensors.length)),
    ];
    const name = `${stem}-${five(index + 1)}-of-${five(count)}.gguf`;
    paths.push(join(folder, name));
    await writeFile(join(folder, name), partOf(bytes, entries, own));
  }
  return paths;
}

function partOf(bytes: Buffer, entries: readonly Uint8Array[], tensors: readonly GgufTensor[]): Buffer {
  const data = tensors.map(({ offset, bytes: length }) => {
    const padding = Buffer.alloc((ALIGNMENT - (length % ALIGNMENT)) % ALIGNMENT);
    return Buffer.concat([bytes.subarray(offset, offset + length), padding]);
  });
  let offset = 0;
  const described = tensors.map(({ name, shape, type }, index) => {
    const at = offset;
    offset += data[index]?.length ?? 0;
    return tensor({ name, shape, type: numberOf(type.name), offset: at });
  });
  const file = gguf({ entries, tensors: described, dataBytes: offset });
  Buffer.concat(data).copy(file, file.length - offset);
  return file;
}

function entry(key: string, type: number, value: Uint8Array): Buffer {
  return Buffer.concat([string(key), u32(type), value]);
}

function numberOf(name: string): number {
  return [...TENSOR_TYPES].find(([, type]) => type.name === name)?.[0] ?? -1;
}

function five(number: number): string {
  return String(number).padStart(5, '0');
}

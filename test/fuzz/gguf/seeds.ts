/**
 * Seeds of the mutations: headers of valid models of a few kilobytes, and the hostile files.
 *
 * The models are the test models with vocabularies cut to a few tokens: all keys, templates and tensor names are as
 * in real files. The reader does not read weights, so none are included; the file size is a separate number.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { FIXED_VALUES, TENSOR_TYPES, VALUE_TYPE } from '../../../src/models/gguf/ggml-types.ts';
import { parseGgufHeader } from '../../../src/models/gguf/gguf-header.ts';
import type { GgufArray, GgufHeader } from '../../../src/models/gguf/gguf-values.ts';
import { HOSTILE, tokens } from '../../models/hostile-files.ts';
import {
  arrayEntry,
  entry,
  gguf,
  numberEntry,
  partEntries,
  string,
  tensor,
  textEntry,
  u32,
} from '../../models/raw-gguf.ts';
import { TEST_PRESETS } from '../../make-model/presets.ts';

export interface Seed {
  readonly name: string;
  readonly bytes: Uint8Array;
  readonly fileBytes: number;
  readonly isValid: boolean;
  /** Offsets of possible counts and sizes: eight bytes whose upper ones are zero. */
  readonly places: readonly number[];
}

const MODELS = fileURLToPath(new URL('../../../build/models', import.meta.url));
const TOKENS_KEPT = 4;
const TENSORS_KEPT = 6;
const MOST_SEED_BYTES = 8 * 1024;

/** REQUIRES: the test models exist. */
export async function makeSeeds(): Promise<Seed[]> {
  const models = await Promise.all(
    TEST_PRESETS.map(async (name) => {
      const whole = await readFile(join(MODELS, `${name}.gguf`));
      return seed(name, shrunk(whole));
    }),
  );
  const hostile = HOSTILE.filter(([, bytes]) => bytes.length <= MOST_SEED_BYTES);
  return [...models, ...handmade(), ...hostile.map(([name, bytes]) => seed(name, bytes))];
}

function seed(name: string, file: Uint8Array): Seed {
  const isValid = isRead(file);
  const header = isValid ? withoutData(file) : file;
  return { name, bytes: header, fileBytes: file.length, isValid, places: placesIn(header) };
}

const named = (architecture: string): Buffer => textEntry('general.architecture', architecture);
const bool = (key: string, value: boolean): Buffer => entry(key, VALUE_TYPE.bool, Buffer.of(value ? 1 : 0));
const perLayer = (key: string, values: readonly number[]): Buffer =>
  arrayEntry(key, VALUE_TYPE.int32, values.length, Buffer.concat(values.map(u32)));

/** Seeds with features that the test models lack. */
function handmade(): Seed[] {
  const part = { entries: partEntries(1, 2, 3), tensors: [tensor(), tensor({ name: 'b', offset: 128 })] };
  return [
    seed('experts', gguf(experts())),
    seed('mamba', gguf(mamba())),
    seed('part', gguf({ ...part, dataBytes: 256 })),
    seed('projector', gguf(projector())),
    seed('every type', gguf({ entries: everyType(), alignment: 64 })),
  ];
}

function experts(): Parameters<typeof gguf>[0] {
  return {
    entries: [
      named('qwen3moe'),
      numberEntry('qwen3moe.block_count', 2),
      numberEntry('qwen3moe.expert_count', 8),
      numberEntry('qwen3moe.expert_used_count', 2),
      numberEntry('qwen3moe.expert_group_count', 4),
      numberEntry('qwen3moe.expert_group_used_count', 2),
      perLayer('qwen3moe.attention.head_count', [4, 8]),
      perLayer('qwen3moe.attention.head_count_kv', [2, 0]),
      tokens(2),
      arrayEntry('tokenizer.ggml.merges', VALUE_TYPE.string, 1, string('t t')),
    ],
    tensors: [tensor({ name: 'token_embd.weight', shape: [16, 2] })],
  };
}

function mamba(): Parameters<typeof gguf>[0] {
  return {
    version: 2,
    entries: [
      named('mamba2'),
      numberEntry('mamba2.attention.head_count', 0),
      numberEntry('mamba2.ssm.group_count', 1),
      textEntry('mamba2.rope.scaling.type', 'yarn'),
    ],
  };
}

function projector(): Parameters<typeof gguf>[0] {
  return {
    entries: [
      named('clip'),
      bool('clip.has_vision_encoder', true),
      numberEntry('clip.vision.image_size', 384),
      numberEntry('clip.vision.patch_size', 16),
      numberEntry('clip.vision.embedding_length', 64),
      numberEntry('clip.vision.attention.head_count', 4),
      numberEntry('clip.vision.block_count', 2),
    ],
    tensors: [tensor({ name: 'v.blk.0.attn_q.weight', shape: [4, 4, 2, 1] })],
  };
}

/** Entries of every type, alone and in a list. */
function everyType(): Buffer[] {
  return [
    named('llama'),
    ...Object.entries(VALUE_TYPE)
      .filter(([, type]) => FIXED_VALUES.has(type))
      .flatMap(([name, type]) => {
        const bytes = Buffer.alloc(3 * (FIXED_VALUES.get(type)?.bytes ?? 0), 1);
        return [entry(name, type, bytes.subarray(0, bytes.length / 3)), arrayEntry(`${name}s`, type, 3, bytes)];
      }),
    numberEntry('general.alignment', 64),
    textEntry(
      'tokenizer.chat_template',
      "{% for m in messages %}{% if m['role'] == \"user\" %}{{ (m.content|trim)[1:] ~ {'a': [1, -2]}['a'] }}{% elif not m %}{# no #}{% else %}{% set x = a if b else c %}{% endif %}{% endfor %}",
    ),
  ];
}

/** Returns the header with the same keys, shortened lists, and the first few tensors with few rows. */
function shrunk(whole: Buffer): Buffer {
  const { metadata, tensors } = parsed(whole);
  const entries = Array.from(metadata, ([key, { value, start, end }]) =>
    typeof value === 'object' ? shortened(key, value, whole) : whole.subarray(start, end),
  );
  let offset = 0;
  const kept = tensors.slice(0, TENSORS_KEPT).map(({ name, shape, type }) => {
    const few = shape.map((length, index) => (index === 0 ? length : Math.min(length, TOKENS_KEPT)));
    const [number = 0] = [...TENSOR_TYPES].find(([, each]) => each === type) ?? [];
    const bytes = (few.reduce((product, length) => product * length, 1) / type.blockLength) * type.blockBytes;
    const made = tensor({ name, shape: few, type: number, offset });
    offset = Math.ceil((offset + bytes) / 32) * 32;
    return made;
  });
  return gguf({ entries, tensors: kept, dataBytes: offset });
}

function shortened(key: string, { elementType, count, start }: GgufArray, whole: Buffer): Buffer {
  const kept = Math.min(count, TOKENS_KEPT);
  let end = start + kept * (FIXED_VALUES.get(elementType)?.bytes ?? 0);
  if (elementType === VALUE_TYPE.string) {
    for (let index = 0; index < kept; index += 1) end += 8 + Number(whole.readBigUInt64LE(end));
  }
  return arrayEntry(key, elementType, kept, whole.subarray(start, end));
}

function withoutData(file: Uint8Array): Uint8Array {
  const [first] = parsed(file).tensors;
  return first === undefined ? file : file.subarray(0, first.offset);
}

function isRead(file: Uint8Array): boolean {
  try {
    parsed(file);
    return true;
  } catch {
    return false;
  }
}

function parsed(file: Uint8Array): GgufHeader {
  const header = parseGgufHeader(file, file.length, 'the seed');
  if (header === 'more') throw new Error('truncated seed');
  return header;
}

function placesIn(bytes: Uint8Array): number[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const places: number[] = [];
  for (let at = 4; at + 8 <= bytes.length; at += 1) {
    const low = view.getUint32(at, true);
    if (view.getUint32(at + 4, true) === 0 && low > 0 && low < 0x1_0000) places.push(at);
  }
  return places;
}

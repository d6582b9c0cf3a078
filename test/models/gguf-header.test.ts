/** The pure GGUF header parser: accepted files, and refusal of every hostile one. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { VALUE_TYPE } from '../../src/models/gguf/ggml-types.ts';
import { parseGgufHeader } from '../../src/models/gguf/gguf-header.ts';
import type { GgufHeader } from '../../src/models/gguf/gguf-values.ts';
import { SvcError } from '../../src/protocol/errors.ts';
import { cpuMs } from '../support/cpu-time.ts';
import { HOSTILE, tokens } from './hostile-files.ts';
import { arrayEntry, gguf, LLAMA, numberEntry, string, tensor, textEntry, u32, u64 } from './raw-gguf.ts';

const HUGE = 2n ** 63n - 1n;

function parse(bytes: Uint8Array): GgufHeader {
  const header = parseGgufHeader(bytes, bytes.length, 'the file');
  if (header === 'more') throw new Error('asked for more than the whole file');
  return header;
}

/** Message of the error that refuses the file. */
function refusal(bytes: Uint8Array): string {
  try {
    parse(bytes);
  } catch (error) {
    if (error instanceof SvcError && error.code === 'MODEL_INVALID') return error.message;
    throw error;
  }
  throw new Error('accepted');
}

test('values of every type are read, little-endian', () => {
  const fixed = (key: string, type: number, bytes: readonly number[]): Buffer =>
    Buffer.concat([string(key), u32(type), Buffer.from(bytes)]);
  const doubled = Buffer.alloc(8);
  doubled.writeDoubleLE(-1.5);
  const { metadata } = parse(
    gguf({
      entries: [
        LLAMA,
        fixed('u8', VALUE_TYPE.uint8, [0xfe]),
        fixed('i8', VALUE_TYPE.int8, [0xfe]),
        fixed('u16', VALUE_TYPE.uint16, [0xfe, 0xff]),
        fixed('i16', VALUE_TYPE.int16, [0xfe, 0xff]),
        fixed('u32', VALUE_TYPE.uint32, [0xfe, 0xff, 0xff, 0xff]),
        fixed('i32', VALUE_TYPE.int32, [0xfe, 0xff, 0xff, 0xff]),
        fixed('f32', VALUE_TYPE.float32, [0, 0, 0x80, 0x3f]),
        fixed('bool', VALUE_TYPE.bool, [1]),
        fixed('u64', VALUE_TYPE.uint64, [...u64(HUGE)]),
        fixed('i64', VALUE_TYPE.int64, [...u64(-2)]),
        fixed('f64', VALUE_TYPE.float64, [...doubled]),
        textEntry('text', 'grün'),
      ],
    }),
  );
  const values = Object.fromEntries([...metadata].map(([key, { value }]) => [key, value]));
  assert.equal(values, {
    'general.architecture': 'llama',
    u8: 254,
    i8: -2,
    u16: 65_534,
    i16: -2,
    u32: 4_294_967_294,
    i32: -2,
    f32: 1,
    bool: true,
    u64: HUGE,
    i64: -2,
    f64: -1.5,
    text: 'grün',
  });
});

test('an array is not copied but kept as a span of the bytes', () => {
  const bytes = gguf({
    entries: [LLAMA, arrayEntry('words', VALUE_TYPE.string, 2, Buffer.concat([string('one'), string('two')]))],
  });
  const { value } = parse(bytes).metadata.get('words')!;
  assert.ok(typeof value === 'object');
  assert.is(value.count, 2);
  assert.is(
    bytes
      .subarray(value.start, value.end)
      .toString('latin1')
      .replace(/[^a-z]/g, ''),
    'onetwo',
  );
});

test('a long text is kept as a span too', () => {
  const bytes = gguf({ entries: [LLAMA, textEntry('long', 'x'.repeat(1024 * 1024 + 1))] });
  const { type, value } = parse(bytes).metadata.get('long')!;
  assert.is(type, VALUE_TYPE.string);
  assert.ok(typeof value === 'object');
  assert.is(value.count, 1024 * 1024 + 1);
  assert.is(bytes.subarray(value.start, value.end).toString('latin1').replaceAll('x', ''), '');
});

test('a byte order mark at the beginning of a key is part of the key, as in libllama', () => {
  const { metadata } = parse(gguf({ entries: [LLAMA, numberEntry('\ufeffgeneral.alignment', 3)] }));
  assert.equal([...metadata.keys()], ['general.architecture', '\ufeffgeneral.alignment']);
});

test('scores may be integers, and layers may differ', () => {
  parse(
    gguf({
      entries: [
        LLAMA,
        tokens(2),
        arrayEntry('tokenizer.ggml.scores', VALUE_TYPE.int32, 2, Buffer.alloc(8)),
        numberEntry('llama.block_count', 2),
        arrayEntry('llama.attention.head_count_kv', VALUE_TYPE.int32, 2, Buffer.concat([u32(0), u32(8)])),
      ],
    }),
  );
});

test('tensors have aligned offsets in the file', () => {
  const { tensors } = parse(
    gguf({
      entries: [LLAMA, numberEntry('general.alignment', 64)],
      tensors: [tensor({ name: 'a', shape: [3] }), tensor({ name: 'b', shape: [32, 2], type: 8, offset: 64 })],
      alignment: 64,
      dataBytes: 64 + 68,
    }),
  );
  assert.equal(
    tensors.map(({ name, type, bytes }) => [name, type.name, bytes]),
    [
      ['a', 'F32', 12],
      ['b', 'Q8_0', 68],
    ],
  );
  assert.is(tensors[1]!.offset - tensors[0]!.offset, 64);
  assert.is(tensors[0]!.offset % 64, 0);
});

test('the parser asks for more bytes if the header is incomplete, and never otherwise', () => {
  const bytes = gguf();
  const headerBytes = bytes.length - 128;
  for (let length = 0; length < headerBytes - 32; length += 1) {
    assert.is(parseGgufHeader(bytes.subarray(0, length), bytes.length, 'the file'), 'more', `${length} bytes`);
  }
  assert.not.equal(parseGgufHeader(bytes.subarray(0, headerBytes), bytes.length, 'the file'), 'more');
});

for (const [what, bytes, says] of HOSTILE) {
  test(`${what}: refused with one sentence`, () => {
    let least = Infinity;
    // Other threads of this process count as well, such as those that collect garbage.
    for (let time = 0; time < 3; time += 1) {
      const before = cpuMs();
      const sentence = refusal(bytes);
      least = Math.min(least, cpuMs() - before);
      assert.match(sentence, /^the file [a-z]/);
      assert.match(sentence, says);
    }
    assert.ok(least < 100, 'without working through what the file claims');
  });
}

test('names from the file are escaped before they reach the terminal', () => {
  assert.not.match(
    refusal(gguf({ entries: [textEntry('\u001b[2J\u009b\u202e', 'a'), textEntry('\u001b[2J\u009b\u202e', 'a')] })),
    /[\u0000-\u001f\u009b\u202e]/,
  );
});

test('a file truncated anywhere is refused', () => {
  const whole = gguf({ entries: [LLAMA, arrayEntry('words', 8, 2, Buffer.concat([string('one'), string('two')]))] });
  parse(whole);
  for (let length = 0; length < whole.length; length += 1) refusal(whole.subarray(0, length));
});

test('a file damaged anywhere is read or refused, without crash or hang', () => {
  const whole = gguf({ entries: [LLAMA, arrayEntry('words', 8, 2, Buffer.concat([string('one'), string('two')]))] });
  let refused = 0;
  let state = 1;
  const random = (below: number): number => (
    (state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0),
    (state >>> 8) % below
  );
  for (let round = 0; round < 50_000; round += 1) {
    const bytes = Buffer.from(whole);
    for (let change = random(4); change >= 0; change -= 1) bytes[random(bytes.length - 128)] = random(256);
    try {
      parse(bytes);
    } catch (error) {
      if (!(error instanceof SvcError) || error.code !== 'MODEL_INVALID') throw error;
      refused += 1;
    }
  }
  assert.ok(refused > 25_000, `${refused} of 50000 refused`);
});

test.run();

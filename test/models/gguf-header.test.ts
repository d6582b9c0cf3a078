/** The pure parser: what it accepts, and that nothing hostile does more than be refused. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { VALUE_TYPE } from '../../src/models/ggml-types.ts';
import { parseGgufHeader, type GgufHeader } from '../../src/models/gguf-header.ts';
import { SvcError } from '../../src/protocol/errors.ts';
import { arrayEntry, gguf, LLAMA, numberEntry, string, tensor, textEntry, u32, u64 } from './raw-gguf.ts';

const HUGE = 2n ** 63n - 1n;

function parse(bytes: Uint8Array): GgufHeader {
  const header = parseGgufHeader(bytes, bytes.length, 'the file');
  if (header === 'more') throw new Error('asked for more than the whole file');
  return header;
}

/** The sentence that refuses the file. */
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

test('an array stays in place, as a span of the bytes', () => {
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

test('tensors have their place in the file, each aligned', () => {
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

test('given less than the header it asks for more, and never when it has all', () => {
  const bytes = gguf();
  const headerBytes = bytes.length - 128;
  for (let length = 0; length < headerBytes - 32; length += 1) {
    assert.is(parseGgufHeader(bytes.subarray(0, length), bytes.length, 'the file'), 'more', `${length} bytes`);
  }
  assert.not.equal(parseGgufHeader(bytes.subarray(0, headerBytes), bytes.length, 'the file'), 'more');
});

const hostile: readonly [what: string, bytes: Uint8Array, says: RegExp][] = [
  ['nothing', Buffer.of(), /is empty/],
  ['half a magic', Buffer.from('GG'), /cut short/],
  ['text', Buffer.from('Hello, this is a plain text file.\n'.repeat(9)), /not a GGUF file/],
  ['a page', Buffer.from('\n<!DOCTYPE html><html><body>404</body></html>'.padEnd(99)), /web page/],
  ['a pointer', Buffer.from('version https://git-lfs.github.com/spec/v1\noid sha256:0000\nsize 1\n'), /Git LFS/],
  ['other endianness', gguf({ version: 0x0300_0000 }), /big-endian/],
  ['version 1', gguf({ version: 1 }), /version 1/],
  ['version 4', gguf({ version: 4 }), /version 4/],
  ['2^63-1 tensors', gguf({ tensorCount: HUGE }), /tensors, more than can be/],
  ['2^64-1 tensors', gguf({ tensorCount: -1n }), /tensors, more than can be/],
  ['a million tensors', gguf({ tensorCount: 1_000_000 }), /1000000 tensors/],
  ['2^63-1 entries', gguf({ entryCount: HUGE }), /metadata entries, more than can be/],
  ['one entry too many', gguf({ entryCount: 9 }), /./],
  ['a key longer than the file', gguf({ entries: [string('key', HUGE)] }), /metadata key is longer/],
  ['a key of 2^64-1 bytes', gguf({ entries: [string('key', -1n)] }), /metadata key is longer/],
  ['a key of 70 kB', gguf({ entries: [textEntry('k'.repeat(70_000), 'v')] }), /70000 bytes long/],
  ['an empty key', gguf({ entries: [textEntry('', 'v')] }), /empty metadata key/],
  ['a key twice', gguf({ entries: [LLAMA, LLAMA] }), /"general.architecture" twice/],
  ['an unknown value type', gguf({ entries: [Buffer.concat([string('k'), u32(13), u64(0)])] }), /type 13/],
  ['nested arrays', gguf({ entries: [arrayEntry('k', VALUE_TYPE.array, 1, u64(0))] }), /nests arrays/],
  ['an unknown element type', gguf({ entries: [arrayEntry('k', 77, 1, u64(0))] }), /type 77/],
  ['2^61 strings', gguf({ entries: [arrayEntry('k', VALUE_TYPE.string, 2n ** 61n)] }), /elements in "k"/],
  ['2^61 numbers, 2^64 bytes', gguf({ entries: [arrayEntry('k', VALUE_TYPE.uint64, 2n ** 61n)] }), /elements in "k"/],
  [
    'a string value longer than the file',
    gguf({ entries: [Buffer.concat([string('k'), u32(8), string('v', HUGE)])] }),
    /longer/,
  ],
  [
    'an element longer than the file',
    gguf({ entries: [arrayEntry('k', 8, 2, Buffer.concat([string('a'), string('b', HUGE)]))] }),
    /longer/,
  ],
  ['a tensor name of 64 bytes', gguf({ tensors: [tensor({ name: 'n'.repeat(64) })] }), /tensor name is 64 bytes/],
  ['a tensor twice', gguf({ tensors: [tensor(), tensor({ offset: 128 })], dataBytes: 256 }), /"a" twice/],
  [
    'scores stored as bytes',
    gguf({ entries: [LLAMA, arrayEntry('tokenizer.ggml.scores', VALUE_TYPE.int8, 2, Buffer.alloc(2))] }),
    /wrong type in "tokenizer\.ggml\.scores"/,
  ],
  [
    'fewer scores than tokens',
    gguf({
      entries: [
        LLAMA,
        arrayEntry('tokenizer.ggml.tokens', VALUE_TYPE.string, 2, Buffer.concat([string('a'), string('b')])),
        arrayEntry('tokenizer.ggml.scores', VALUE_TYPE.float32, 1, Buffer.alloc(4)),
      ],
    }),
    /1 values in "tokenizer\.ggml\.scores" for 2 tokens/,
  ],
  ['five dimensions', gguf({ tensors: [tensor({ shape: [1, 1, 1, 1, 1] })] }), /5 dimensions/],
  ['2^32-1 dimensions', gguf({ tensors: [tensor({ dimensions: 0xffff_ffff })] }), /4294967295 dimensions/],
  ['a dimension of 2^63', gguf({ tensors: [tensor({ shape: [2n ** 63n] })] }), /impossible shape/],
  ['a product of 2^64', gguf({ tensors: [tensor({ shape: [2n ** 32n, 2n ** 32n] })] }), /impossible shape/],
  ['an empty dimension', gguf({ tensors: [tensor({ shape: [2, 0] })] }), /empty dimension/],
  ['nothing times too much', gguf({ tensors: [tensor({ shape: [0, 2n ** 63n] })] }), /empty dimension/],
  ['a type that is gone', gguf({ tensors: [tensor({ type: 4 })] }), /type 4/],
  ['a type of 2^32-1', gguf({ tensors: [tensor({ type: 0xffff_ffff })] }), /type 4294967295/],
  ['half a block', gguf({ tensors: [tensor({ shape: [33], type: 8 })] }), /rows of 33 values/],
  ['an offset of 2^64-1', gguf({ tensors: [tensor({ offset: -1n })] }), /places tensor "a"/],
  ['an offset into the header', gguf({ tensors: [tensor({ offset: -32n })] }), /places tensor "a"/],
  [
    'tensors that overlap',
    gguf({ tensors: [tensor(), tensor({ name: 'b', offset: 64 })], dataBytes: 512 }),
    /"b" at 64 where 128/,
  ],
  ['tensors beyond the end', gguf({ dataBytes: 127 }), /cut short: its tensors need \d+ bytes/],
  ['no data at all', gguf({ dataBytes: 0 }), /cut short/],
  ['an alignment of 0', gguf({ entries: [LLAMA, numberEntry('general.alignment', 0)] }), /alignment/],
  ['an alignment of 3', gguf({ entries: [LLAMA, numberEntry('general.alignment', 3)] }), /alignment/],
  ['an alignment of 2^31', gguf({ entries: [LLAMA, numberEntry('general.alignment', 2 ** 31)] }), /alignment/],
  ['an alignment in words', gguf({ entries: [LLAMA, textEntry('general.alignment', '32')] }), /alignment/],
];

for (const [what, bytes, says] of hostile) {
  test(`${what} is refused with a sentence`, () => {
    const startedAt = performance.now();
    const sentence = refusal(bytes);
    assert.match(sentence, /^the file [a-z]/);
    assert.match(sentence, says);
    assert.ok(performance.now() - startedAt < 100, 'without working through what the file claims');
  });
}

test('names out of the file do not reach the terminal raw', () => {
  assert.not.match(
    refusal(gguf({ entries: [textEntry('\u001b[2J\u009b\u202e', 'a'), textEntry('\u001b[2J\u009b\u202e', 'a')] })),
    /[\u0000-\u001f\u009b\u202e]/,
  );
});

test('a file that is cut anywhere is refused', () => {
  const whole = gguf({ entries: [LLAMA, arrayEntry('words', 8, 2, Buffer.concat([string('one'), string('two')]))] });
  parse(whole);
  for (let length = 0; length < whole.length; length += 1) refusal(whole.subarray(0, length));
});

test('a file that is damaged anywhere is read or refused, and nothing else happens', () => {
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

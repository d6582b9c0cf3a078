/**
 * Hostile model files, each with the expected refusal. They cover the published attacks on GGUF readers (overflowing
 * counts and dimensions, offsets beyond the file, sizes that wrap, arrays of the wrong type, division by zero,
 * templates that exhaust the stack), and everything else for which libllama aborts the process.
 *
 *   node --import tsx test/models/make-hostile-models.ts DIR      writes all of them
 */
import { VALUE_TYPE } from '../../src/models/gguf/ggml-types.ts';
import { GGUF_LIMITS } from '../../src/models/gguf/gguf-limits.ts';
import {
  arrayEntry,
  entry,
  gguf,
  LLAMA,
  numberEntry,
  partEntries,
  string,
  tensor,
  textEntry,
  u16,
  u32,
  u64,
} from './raw-gguf.ts';

export type HostileFile = readonly [what: string, bytes: Uint8Array, says: RegExp];

const HUGE = 2n ** 63n - 1n;

/** Token list entry of `count` one-letter tokens. */
export function tokens(count: number): Buffer {
  return arrayEntry('tokenizer.ggml.tokens', VALUE_TYPE.string, count, Buffer.concat(Array(count).fill(string('t'))));
}

const model = (...entries: Uint8Array[]): Buffer => gguf({ entries: [LLAMA, ...entries] });
const template = (text: string): Buffer => model(textEntry('tokenizer.chat_template', text));
const projector = (...entries: Uint8Array[]): Buffer =>
  gguf({ entries: [textEntry('general.architecture', 'clip'), ...entries] });
const i32 = (key: string, value: number): Buffer => entry(key, VALUE_TYPE.int32, u32(value));
const list = (key: string, values: readonly number[]): Buffer =>
  arrayEntry(key, VALUE_TYPE.int32, values.length, Buffer.concat(values.map(u32)));
const withTensors = (names: readonly string[], ...entries: Uint8Array[]): Buffer =>
  gguf({
    entries: [LLAMA, ...entries],
    tensors: names.map((name, index) => tensor({ name, offset: index * 128 })),
    dataBytes: names.length * 128,
  });
/** One level more than the accepted depth. */
const DEEP = GGUF_LIMITS.templateDepth + 1;

const FORMAT: readonly HostileFile[] = [
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
  [
    'a split of words for another tokenizer',
    gguf({
      entries: [
        LLAMA,
        textEntry('tokenizer.ggml.model', 'gpt2'),
        textEntry('tokenizer.ggml.pre', 'whitespace'),
        arrayEntry('tokenizer.ggml.tokens', VALUE_TYPE.string, 2, Buffer.concat([string('a'), string('b')])),
      ],
    }),
    /splits words \("tokenizer\.ggml\.pre"\) for another tokenizer/,
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
  ['an alignment in 8 bytes', model(entry('general.alignment', VALUE_TYPE.uint64, u64(32))), /alignment/],
  ['an alignment of 32.0', model(entry('general.alignment', VALUE_TYPE.float32, Buffer.of(0, 0, 0, 66))), /alignment/],
  // libllama reads these keys and names only up to the NUL.
  ['a key that goes on after a NUL', model(numberEntry('general.alignment\0', 4096)), /control characters/],
  ['a tensor that goes on after a NUL', gguf({ tensors: [tensor({ name: 'a\0b' })] }), /control characters/],
  [
    'a mark before a key, which makes it another',
    gguf({ entries: [LLAMA, numberEntry('\ufeffgeneral.alignment', 64), numberEntry('general.alignment', 3)] }),
    /power of two/,
  ],
];

const CONTENTS: readonly HostileFile[] = [
  [
    'an architecture that goes on after a NUL',
    gguf({ entries: [textEntry('general.architecture', 'llama\0x')] }),
    /invalid architecture name/,
  ],
  [
    'an architecture of 65 letters',
    gguf({ entries: [textEntry('general.architecture', 'a'.repeat(65))] }),
    /invalid architecture name/,
  ],
  [
    'an architecture that is a number',
    gguf({ entries: [numberEntry('general.architecture', 7)] }),
    /invalid architecture name/,
  ],

  ['a template of 257 KiB', template(' '.repeat(257 * 1024)), /chat template of 263168 bytes/],
  ['a template of 2 MiB', template(' '.repeat(2 * 1024 * 1024)), /chat template of 2097152 bytes/],
  ['a template in deep parentheses', template(`{{ ${'('.repeat(DEEP)}1${')'.repeat(DEEP)} }}`), /nested 15\d levels/],
  ['a template of 100000 parentheses', template(`{{ ${'('.repeat(100_000)}`), /nested 100000 levels/],
  ['a template in deep lists', template(`{{ ${'['.repeat(DEEP)} }}`), /nested 151 levels/],
  ['a template in deep dictionaries', template(`{{ ${'{1:'.repeat(DEEP)} }}`), /nested 151 levels/],
  ['a template in deep blocks', template('{% if a %}'.repeat(DEEP)), /nested 151 levels/],
  ['a template in deep loops', template('{%- for a in b -%}'.repeat(DEEP)), /nested 15\d levels/],
  ['a template of macros in macros', template('{% macro m() %}'.repeat(DEEP)), /nested 15\d levels/],
  ['a template that sets in sets', template('{% set a %}'.repeat(DEEP)), /nested 151 levels/],
  ['a template of filters in filters', template('{% filter upper %}'.repeat(DEEP)), /nested 151 levels/],
  ['a template of calls in calls', template('{% call m() %}'.repeat(DEEP)), /nested 15\d levels/],
  [
    'a template of one elif after the other',
    template(`{% if a %}${'{% elif a %}'.repeat(DEEP)}{% endif %}`),
    /nested 152 levels/,
  ],
  ['a template of not not not', template(`{{ ${'not '.repeat(DEEP)}a }}`), /nested 151 levels/],
  ['a template of minus minus', template(`{{ ${'- '.repeat(DEEP)}a }}`), /nested 151 levels/],
  ['a template of if else if else', template(`{{ ${'a if b else '.repeat(DEEP)}a }}`), /nested 302 levels/],
  ['a template of a long sum', template(`{{ a${' + a'.repeat(DEEP)} }}`), /nested 151 levels/],
  ['a template of a long path', template(`{{ a${'.a'.repeat(DEEP)} }}`), /nested 151 levels/],
  ['a template of a long row of indices', template(`{{ a${'[0]'.repeat(DEEP)} }}`), /nested 151 levels/],
  ['a template of calls of calls', template(`{{ a${'()'.repeat(DEEP)} }}`), /nested 151 levels/],
  ['a template of filters of filters', template(`{{ a${'|f'.repeat(DEEP)} }}`), /nested 151 levels/],
  ['a template that hides in a string', template(`{{ "}}" ${'('.repeat(DEEP)}`), /nested 151 levels/],
  ['a template that hides behind a dictionary', template(`{{ {1: {2: 3}} ${'('.repeat(DEEP)}`), /nested 15\d levels/],
  ['a template that hides behind a comment', template(`{# {{ #}{{ ${'('.repeat(DEEP)}`), /nested 151 levels/],
  [
    'a template for tools in deep parentheses',
    model(textEntry('tokenizer.chat_template.tool_use', `{{ ${'('.repeat(DEEP)}`)),
    /nested 151 levels/,
  ],
  ['a template that is a list', model(arrayEntry('tokenizer.chat_template', VALUE_TYPE.string, 0)), /not a string/],

  ['no tokens', model(arrayEntry('tokenizer.ggml.tokens', VALUE_TYPE.string, 0)), /no tokens/],
  ['tokens that are numbers', model(list('tokenizer.ggml.tokens', [1])), /wrong type in "tokenizer\.ggml\.tokens"/],
  ['tokens that are a text', model(textEntry('tokenizer.ggml.tokens', 'a b c')), /wrong type/],
  ['fewer types than tokens', model(tokens(3), list('tokenizer.ggml.token_type', [1, 1])), /2 values .* for 3 tokens/],
  ['merges that are numbers', model(list('tokenizer.ggml.merges', [1])), /wrong type in "tokenizer\.ggml\.merges"/],
  [
    'more merges than a vocabulary has',
    model(
      tokens(2),
      arrayEntry('tokenizer.ggml.merges', VALUE_TYPE.string, 33, Buffer.concat(Array(33).fill(string('a b')))),
    ),
    /33 values in "tokenizer\.ggml\.merges" for 2 tokens/,
  ],
  [
    'fewer rows than tokens',
    gguf({ entries: [LLAMA, tokens(3)], tensors: [tensor({ name: 'token_embd.weight', shape: [16, 2] })] }),
    /2 rows in tensor "token_embd\.weight" for 3 tokens/,
  ],
  [
    'a vocabulary of 2^32-1',
    model(numberEntry('llama.vocab_size', 0xffff_ffff)),
    /"llama\.vocab_size" the value 4294967295/,
  ],

  ['0 layers', model(numberEntry('llama.block_count', 0)), /"llama\.block_count" the value 0 \(uint32\)/],
  ['513 layers', model(numberEntry('llama.block_count', 513)), /the value 513 .* from 1 to 512/],
  ['-1 layers', model(i32('llama.block_count', -1)), /the value -1 \(int32\)/],
  ['layers as a text', model(textEntry('llama.block_count', '2')), /the value a text/],
  ['layers as a list', model(list('llama.block_count', [1])), /the value a list/],
  ['a context of 0', model(numberEntry('llama.context_length', 0)), /"llama\.context_length" the value 0/],
  ['a context of 2^32-1', model(numberEntry('llama.context_length', 0xffff_ffff)), /the value 4294967295/],
  ['a width of 0', model(numberEntry('llama.embedding_length', 0)), /"llama\.embedding_length" the value 0/],
  ['-1 heads', model(i32('llama.attention.head_count', -1)), /"llama\.attention\.head_count" the value -1/],
  [
    'attention with 0 heads',
    withTensors(['blk.0.attn_q.weight'], numberEntry('llama.attention.head_count', 0)),
    /attention \("blk\.0\.attn_q\.weight"\) with 0 heads/,
  ],
  [
    'attention with 0 heads of keys',
    withTensors(['blk.0.attn_k.weight'], numberEntry('llama.attention.head_count_kv', 0)),
    /attention \("blk\.0\.attn_k\.weight"\) with 0 heads/,
  ],
  [
    '3 heads of keys for 8',
    model(numberEntry('llama.attention.head_count', 8), numberEntry('llama.attention.head_count_kv', 3)),
    /8 attention heads, which is not a multiple of its 3 KV heads/,
  ],
  [
    'heads for more layers than there are',
    model(numberEntry('llama.block_count', 2), list('llama.attention.head_count', [1, 1, 1])),
    /3 values in "llama\.attention\.head_count" for 2 layers/,
  ],
  [
    '-1 heads in one layer',
    model(numberEntry('llama.block_count', 2), list('llama.attention.head_count', [1, -1])),
    /the value -1 in layer 1/,
  ],
  [
    'heads in a list of bytes',
    model(arrayEntry('llama.attention.head_count', VALUE_TYPE.uint8, 1, Buffer.of(1))),
    /wrong type in "llama\.attention\.head_count"/,
  ],
  ['heads for 600 layers', model(list('llama.attention.head_count_kv', Array<number>(600).fill(1))), /600 values/],
  ['heads of length 0', model(numberEntry('llama.attention.key_length', 0)), /key_length" the value 0/],
  [
    'more dimensions turned than there are',
    model(numberEntry('llama.attention.key_length', 64), numberEntry('llama.rope.dimension_count', 128)),
    /rope\.dimension_count 128, more than its head size 64/,
  ],
  [
    'more dimensions turned than a head has by its share',
    model(
      numberEntry('llama.embedding_length', 64),
      numberEntry('llama.attention.head_count', 8),
      numberEntry('llama.rope.dimension_count', 16),
    ),
    /rope\.dimension_count 16, more than its head size 8/,
  ],
  ['an unknown way to scale positions', model(textEntry('llama.rope.scaling.type', 'none\0')), /unknown RoPE scaling/],
  ['1025 experts', model(numberEntry('llama.expert_count', 1025)), /"llama\.expert_count" the value 1025/],
  [
    '9 experts used of 8',
    model(numberEntry('llama.expert_count', 8), numberEntry('llama.expert_used_count', 9)),
    /uses 9 experts of 8/,
  ],
  ['no experts used of 8', model(numberEntry('llama.expert_count', 8)), /uses 0 experts of 8/],
  [
    '8 experts in 3 groups',
    model(
      numberEntry('llama.expert_count', 8),
      numberEntry('llama.expert_used_count', 2),
      numberEntry('llama.expert_group_count', 3),
      numberEntry('llama.expert_group_used_count', 1),
    ),
    /8 experts in 3 groups/,
  ],
  ['groups of no experts', model(numberEntry('llama.expert_group_count', 2)), /0 experts in 2 groups/],
  [
    '3 layers that predict, of 2',
    model(numberEntry('llama.block_count', 2), numberEntry('llama.nextn_predict_layers', 3)),
    /2 layers but 3/,
  ],
  ['a state of 0 groups', model(numberEntry('llama.ssm.group_count', 0)), /"llama\.ssm\.group_count" the value 0/],
  ['heads of a state of length 0', model(numberEntry('llama.wkv.head_size', 0)), /"llama\.wkv\.head_size" the value 0/],

  ['part 3 of 2', model(...partEntries(2, 2, 2)), /part 3 of 2/],
  ['part 65536', model(entry('split.no', VALUE_TYPE.uint16, u16(65_535))), /the value 65535/],
  ['60000 parts', model(entry('split.count', VALUE_TYPE.uint16, u16(60_000))), /the value 60000/],
  ['a number of parts in 4 bytes', model(numberEntry('split.count', 2)), /"split\.count" the value 2 \(uint32\)/],
  ['a part of -1 tensors', model(entry('split.tensors.count', VALUE_TYPE.int32, u32(-1))), /the value -1/],

  ['a projector of patches of 0', projector(numberEntry('clip.vision.patch_size', 0)), /patch_size" the value 0/],
  [
    'a projector of images of 2^31',
    projector(numberEntry('clip.vision.image_size', 2 ** 31)),
    /image_size" the value 2147483648/,
  ],
  ['a projector that merges 0', projector(numberEntry('clip.vision.spatial_merge_size', 0)), /merge_size" the value 0/],
  [
    'a projector scaled by 0',
    projector(numberEntry('clip.vision.projector.scale_factor', 0)),
    /scale_factor" the value 0/,
  ],
  [
    'a projector of 2^32-1 layers',
    projector(numberEntry('clip.vision.block_count', 0xffff_ffff)),
    /block_count" the value/,
  ],
  ['a projector of heads in a list', projector(list('clip.audio.attention.head_count', [1])), /the value a list/],
  [
    'a projector with attention and 0 heads',
    gguf({
      entries: [textEntry('general.architecture', 'clip'), numberEntry('clip.vision.attention.head_count', 0)],
      tensors: [tensor({ name: 'v.blk.0.attn_q.weight' })],
    }),
    /with 0 heads/,
  ],
];

export const HOSTILE: readonly HostileFile[] = [...FORMAT, ...CONTENTS];

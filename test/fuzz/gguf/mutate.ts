/** Random mutations of a seed, small or large, mostly at the places of numbers. */
import { Random } from '../random.ts';
import type { Seed } from './seeds.ts';

export interface Input {
  readonly bytes: Uint8Array;
  /** Size of the whole file; `bytes` is its beginning. */
  readonly fileBytes: number;
}

const MOST_BYTES = 64 * 1024;
const MOST_CHANGES = 6;

/** Values that break arithmetic: limits of integer types, and values that wrap when multiplied or padded. */
const INTERESTING: readonly bigint[] = [
  ...[0n, 1n, 2n, 3n, 4n, 7n, 8n, 9n, 16n, 31n, 32n, 33n, 63n, 64n, 65n, 127n, 128n, 255n, 256n, 1000n, 1024n, 4096n],
  ...[15n, 16n, 24n, 31n, 32n, 33n, 52n, 53n, 54n, 60n, 61n, 62n, 63n, 64n].flatMap((bits) => [
    2n ** bits - 1n,
    2n ** bits,
    2n ** bits + 1n,
    2n ** bits - 32n,
  ]),
];

const WORDS: readonly string[] = [
  ...['GGUF', 'general.architecture', 'general.alignment', 'llama', 'clip', 'split.no', 'split.count'],
  ...['tokenizer.ggml.tokens', 'tokenizer.ggml.scores', 'tokenizer.ggml.merges', 'tokenizer.chat_template'],
  ...['llama.block_count', 'llama.attention.head_count', 'llama.expert_count', 'token_embd.weight'],
  ...[
    '{{',
    '}}',
    '{%',
    '%}',
    '{#',
    '#}',
    '{% if a %}',
    '{% elif a %}',
    '{% set a %}',
    '{% endif %}',
    '{%- for a in b -%}',
  ],
  ...[
    '(((((((((((((((((((((((((((((((((',
    '[[[[[[[[[[[[[[[[',
    '{1:{1:{1:{1:',
    '"',
    "'",
    '\\',
    'not not not ',
    'a if b else ',
  ],
  ...['\0', '\ufeff', '\u202e', '\u001b[2J'],
];

/** Deterministic for the same seed and index. */
export class Mutator {
  readonly #seeds: readonly Seed[];
  readonly #valid: readonly Seed[];
  readonly #seedNumber: number;
  readonly #scratch = Buffer.alloc(MOST_BYTES);
  readonly #other = Buffer.alloc(MOST_BYTES);
  #length = 0;
  #fileBytes = 0;
  #seed: Seed;
  #random = new Random(0, 0);

  constructor(seeds: readonly Seed[], seedNumber: number) {
    this.#seeds = seeds;
    this.#valid = seeds.filter(({ isValid }) => isValid);
    this.#seedNumber = seedNumber;
    this.#seed = seeds[0]!;
  }

  /** Returns the input with this index. Valid until the next call. */
  make(index: number): Input {
    this.#random = new Random(this.#seedNumber, index);
    this.#seed = this.#random.of(this.#random.below(4) === 0 ? this.#seeds : this.#valid);
    this.#scratch.set(this.#seed.bytes);
    this.#length = this.#seed.bytes.length;
    this.#fileBytes = this.#seed.fileBytes;
    const changes = Math.min(this.#random.below(MOST_CHANGES), this.#random.below(MOST_CHANGES));
    for (let change = changes; change >= 0; change -= 1) this.#change();
    return { bytes: this.#scratch.subarray(0, this.#length), fileBytes: Math.max(this.#fileBytes, this.#length) };
  }

  #change(): void {
    const random = this.#random;
    const at = random.below(this.#length + 1);
    const place = this.#seed.places.length > 0 ? random.of(this.#seed.places) : at;
    // Mutations that shift later bytes are mostly refused at once, so they are rarer.
    switch (random.below(random.below(2) === 0 ? 8 : 13)) {
      case 0:
        if (at < this.#length) this.#scratch[at]! ^= 1 << random.below(8);
        break;
      case 1:
        if (at < this.#length) this.#scratch[at] = random.below(256);
        break;
      case 2:
      case 3:
        if (place + 8 <= this.#length)
          this.#scratch.writeBigUInt64LE(BigInt.asUintN(64, random.of(INTERESTING)), place);
        break;
      case 4:
        if (place + 4 <= this.#length)
          this.#scratch.writeUInt32LE(Number(BigInt.asUintN(32, random.of(INTERESTING))), place);
        break;
      case 5:
        if (place + 4 <= this.#length) {
          this.#scratch.writeUInt32LE((this.#scratch.readUInt32LE(place) + random.below(17) - 8) >>> 0, place);
        }
        break;
      case 11:
        this.#length = at;
        this.#fileBytes = random.below(2) === 0 ? at : this.#fileBytes;
        break;
      case 12:
        this.#splice(place, random.of(this.#seeds));
        break;
      case 8:
        this.#insert(at, this.#scratch.subarray(place, Math.min(this.#length, place + 1 + random.below(256))));
        break;
      case 9:
        this.#remove(at, 1 + random.below(64));
        break;
      case 10:
        this.#insert(at, Buffer.from(random.of(WORDS).repeat(1 + random.below(8))));
        break;
      case 6: {
        const word = Buffer.from(random.of(WORDS));
        if (at + word.length <= this.#length) this.#scratch.set(word, at);
        break;
      }
      case 7:
        this.#fileBytes = random.of([0, this.#length, this.#fileBytes - 1, this.#fileBytes + 1, 2 ** 40, 2 ** 53 - 1]);
        break;
    }
  }

  /** Continues with the bytes of another seed, from a place where that seed may have a number. */
  #splice(at: number, { bytes, places, fileBytes }: Seed): void {
    const from = places.length > 0 ? this.#random.of(places) : 0;
    const start = Math.min(at, this.#length);
    const tail = bytes.subarray(from, from + MOST_BYTES - start);
    this.#scratch.set(tail, start);
    this.#length = start + tail.length;
    this.#fileBytes = Math.max(fileBytes, this.#fileBytes);
  }

  #insert(at: number, piece: Uint8Array): void {
    if (this.#length + piece.length > MOST_BYTES) return;
    this.#other.set(piece);
    this.#scratch.copyWithin(at + piece.length, at, this.#length);
    this.#scratch.set(this.#other.subarray(0, piece.length), at);
    this.#length += piece.length;
    this.#fileBytes += piece.length;
  }

  #remove(at: number, count: number): void {
    const end = Math.min(at + count, this.#length);
    this.#scratch.copyWithin(at, end, this.#length);
    this.#length -= end - at;
  }
}

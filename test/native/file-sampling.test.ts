/** Sampler settings that a model's file recommends: each key has the effect of the request's field. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { VALUE_TYPE } from '../../src/models/gguf/ggml-types.ts';
import { readGgufHeader } from '../../src/models/gguf/gguf.ts';
import { recommendedSampling } from '../../src/models/gguf/recommended-sampling.ts';
import type { Sampling } from '../../src/protocol/generate.ts';
import { entry, textEntry, u32 } from '../models/raw-gguf.ts';
import { modelPath, openFile } from '../support/native-engine.ts';

const ALIGNMENT = 32;
const SEED = 5;
/** Words that come again, so that penalties matter. */
const PROMPT = 'one two three one two three one two three one two three one two three';

/** svc's defaults (SamplingSchema). */
const DEFAULTS: Sampling = {
  temperature: 0.8,
  top_k: 40,
  top_p: 0.95,
  min_p: 0.05,
  xtc_probability: 0,
  xtc_threshold: 0.1,
  mirostat: 0,
  mirostat_tau: 5,
  mirostat_eta: 0.1,
  repeat_last_n: 64,
  repeat_penalty: 1,
};

interface Key {
  readonly key: string;
  readonly name: keyof Sampling;
  readonly value: number;
  readonly type: 'float32' | 'int32';
  /** Settings of the request without which the key has no effect. */
  readonly beside?: Sampling;
}

const KEYS: readonly Key[] = [
  { key: 'temp', name: 'temperature', value: 3.5, type: 'float32' },
  { key: 'top_k', name: 'top_k', value: 1, type: 'int32' },
  { key: 'top_p', name: 'top_p', value: 0.125, type: 'float32' },
  { key: 'min_p', name: 'min_p', value: 0.75, type: 'float32' },
  { key: 'xtc_probability', name: 'xtc_probability', value: 1, type: 'float32', beside: { xtc_threshold: 0.01 } },
  { key: 'xtc_threshold', name: 'xtc_threshold', value: 0.0078125, type: 'float32', beside: { xtc_probability: 1 } },
  { key: 'mirostat', name: 'mirostat', value: 2, type: 'int32', beside: { mirostat_tau: 1 } },
  { key: 'mirostat_tau', name: 'mirostat_tau', value: 0.5, type: 'float32', beside: { mirostat: 2 } },
  { key: 'mirostat_eta', name: 'mirostat_eta', value: 1, type: 'float32', beside: { mirostat: 2, mirostat_tau: 2 } },
  { key: 'penalty_last_n', name: 'repeat_last_n', value: 2, type: 'int32', beside: { repeat_penalty: 8 } },
  { key: 'penalty_repeat', name: 'repeat_penalty', value: 8, type: 'float32' },
];

const test = suite<{ folder: string; plain: Buffer }>('file sampling');

test.before(async (context) => {
  context.folder = await mkdtemp(join(tmpdir(), 'svc-'));
  context.plain = await readFile(modelPath('tiny-llama'));
});
test.after(({ folder }) => rm(folder, { recursive: true }));

/** A copy of `plain` with these keys, padded so that the weights stay aligned. */
function withKeys(plain: Buffer, keys: readonly Pick<Key, 'key' | 'value' | 'type'>[]): Buffer {
  const entries = keys.map(({ key, value, type }) => {
    const bytes = Buffer.alloc(4);
    bytes.writeFloatLE(value);
    return entry(`general.sampling.${key}`, VALUE_TYPE[type], type === 'float32' ? bytes : u32(value));
  });
  const length = Buffer.concat([...entries, textEntry('svc.pad', '')]).length;
  entries.push(textEntry('svc.pad', ' '.repeat(Math.ceil(length / ALIGNMENT) * ALIGNMENT - length)));
  const head = Buffer.from(plain.subarray(0, 24));
  head.writeBigUInt64LE(head.readBigUInt64LE(16) + BigInt(entries.length), 16);
  return Buffer.concat([head, ...entries, plain.subarray(24)]);
}

/** Texts of a model for each of `samplings`, with the same seed. */
async function texts(path: string, samplings: readonly Sampling[]): Promise<string[]> {
  const engine = await openFile(path, { context_length: 512 });
  const answers: string[] = [];
  for (const [id, sampling] of samplings.entries()) {
    const { text } = await engine.generate({
      id,
      prompt: PROMPT,
      max_tokens: 24,
      sampling: { ...sampling, seed: SEED },
    });
    answers.push(text);
  }
  await engine.native.close();
  return answers;
}

test('each key is the default of its field, and the request takes precedence', async ({ folder, plain }) => {
  const asked = KEYS.flatMap(({ name, value, beside }) => [{ ...beside }, { ...beside, [name]: value }]);
  const expected = await texts(modelPath('tiny-llama'), asked);
  for (const [index, { key, name, value, type, beside }] of KEYS.entries()) {
    const [without = '', withIt = ''] = expected.slice(index * 2);
    const path = join(folder, `${key}.gguf`);
    await writeFile(path, withKeys(plain, [{ key, value, type }]));
    assert.equal(recommendedSampling((await readGgufHeader(path)).metadata), { [name]: value });
    const preferred = { ...beside, [name]: DEFAULTS[name] };
    assert.equal(await texts(path, [{ ...beside }, preferred]), [withIt, without], key);
    assert.is.not(withIt, without, `${key} has no effect`);
    await rm(path);
  }
});

test('values out of range, or of another type, are ignored', async ({ folder, plain }) => {
  const wrong = KEYS.map(({ key, type }) => ({ key, type, value: type === 'int32' ? 0x8000_0000 : -1 }));
  const path = join(folder, 'wrong.gguf');
  await writeFile(path, withKeys(plain, [...wrong, { key: 'sequence', value: 1, type: 'int32' }]));
  assert.equal(recommendedSampling((await readGgufHeader(path)).metadata), {});
  assert.equal(await texts(path, [{}]), await texts(modelPath('tiny-llama'), [{}]));
});

test.run();

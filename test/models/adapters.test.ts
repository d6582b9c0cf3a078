/** LoRA adapters in the store: what is checked in their files, and how they come and go with their model. */
import { existsSync, readdirSync } from 'node:fs';
import { copyFile, mkdtemp, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { checkAdapter } from '../../src/models/gguf/adapter-file.ts';
import { VALUE_TYPE } from '../../src/models/gguf/ggml-types.ts';
import { builtinModelPath } from '../../src/models/store/builtin.ts';
import { ModelStore } from '../../src/models/store/store.ts';
import type { VerifyEvent } from '../../src/protocol/model/verify.ts';
import { rejection } from '../support/errors.ts';
import { entry, gguf, LLAMA, tensor, textEntry, u32 } from './raw-gguf.ts';

const MODELS = fileURLToPath(new URL('../../build/models/', import.meta.url));
const modelPath = (name: string): string => join(MODELS, `${name}.gguf`);
const adapterPath = (name: string): string => join(MODELS, 'adapters', `${name}.gguf`);

const test = suite<{ dir: string; store: ModelStore; file(name: string, bytes: Uint8Array): Promise<string> }>(
  'adapters',
);
test.before.each(async (context) => {
  context.dir = await mkdtemp(join(tmpdir(), 'svc-adapters-'));
  context.store = new ModelStore({ dir: join(context.dir, 'models'), builtinPath: builtinModelPath() });
  context.file = async (name, bytes) => {
    const path = join(context.dir, name);
    await writeFile(path, bytes);
    return path;
  };
});
test.after.each(async ({ dir }) => rm(dir, { recursive: true }));

const KIND = [textEntry('general.type', 'adapter'), textEntry('adapter.type', 'lora')];
const alpha = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return entry('adapter.lora.alpha', VALUE_TYPE.float32, bytes);
};

type Shape = readonly number[];
type Row = readonly [name: string, shape: Shape, type?: number];

/** An adapter with these tensors, by default one pair of rank 2 for a weight of 32 x 64. */
function adapter(
  rows: readonly Row[] = [
    ['w.lora_a', [32, 2]],
    ['w.lora_b', [2, 64]],
  ],
  entries: readonly Uint8Array[] = [LLAMA, ...KIND, alpha(4)],
): Buffer {
  return gguf({ entries, ...tensorsOf(rows) });
}

function tensorsOf(rows: readonly Row[]): { tensors: Buffer[]; dataBytes: number } {
  const bytesOf = (shape: Shape, type: number): number =>
    shape.reduce((product, length) => product * length, 1) * (type === 0 ? 4 : type === 26 ? 4 : 2);
  let offset = 0;
  const tensors = rows.map(([name, shape, type = 0]) => {
    const made = tensor({ name, shape, type, offset });
    offset = Math.ceil((offset + bytesOf(shape, type)) / 32) * 32;
    return made;
  });
  return { tensors, dataBytes: offset };
}

/** Both halves of the correction of a weight. */
const pair = (a: Shape, b: Shape, name = 'w', type = 0): Row[] => [
  [`${name}.lora_a`, a, type],
  [`${name}.lora_b`, b],
];
const EMBEDDING = pair([2, 16], [2, 32], 'token_embd.weight');

const GOOD: readonly Buffer[] = [
  adapter(),
  adapter(pair([32, 2], [2, 64], 'w', 1).reverse()),
  adapter(pair([32, 2, 4], [2, 64, 4], 'w_exps')),
  adapter([...pair([32, 2], [2, 64]), ['attn_norm.weight', [32]]]),
  adapter(undefined, [LLAMA, ...KIND]),
];

const withEntries = (...entries: Uint8Array[]): Buffer => adapter(undefined, entries);
const ALORA = entry('adapter.alora.invocation_tokens', VALUE_TYPE.uint32, u32(1));

const BAD: readonly (readonly [bytes: Buffer, message: RegExp])[] = [
  [gguf(), /is not an adapter/],
  [withEntries(LLAMA, KIND[0]!, textEntry('adapter.type', 'cvec')), /type "cvec"; only lora/],
  [withEntries(LLAMA, KIND[0]!), /type not given/],
  [withEntries(textEntry('general.architecture', 'qwen2'), ...KIND), /another base: .* "qwen2", the model's "llama"/],
  [withEntries(...KIND), /its architecture is not given/],
  [withEntries(LLAMA, ...KIND, alpha(Infinity)), /no finite number/],
  [withEntries(LLAMA, ...KIND, alpha(NaN)), /no finite number/],
  [withEntries(LLAMA, ...KIND, textEntry('adapter.lora.alpha', '4')), /no finite number/],
  [withEntries(LLAMA, ...KIND, ALORA), /aLoRA/],
  [adapter([['w.lora_a', [32, 2]]]), /no lora_b for tensor "w"/],
  [adapter([['w.lora_b', [2, 64]]]), /no lora_a for tensor "w"/],
  [adapter([['w', [32, 64]]]), /belongs to no LoRA: "w"/],
  [adapter(pair([32, 2], [2, 64], 'w.lora_a')), /belongs to no LoRA/],
  [adapter([['.lora_a', [32, 2]]]), /belongs to no LoRA/],
  [adapter([]), /has no tensors of an adapter/],
  [adapter(pair([32, 2], [2, 64], 'w', 26)), /as I32/],
  [adapter(pair([32, 2], [2, 64], 'x')), /another base: the model has no tensor "x"/],
  [adapter(pair([64, 2], [2, 64])), /do not fit a weight of 32 × 64/],
  [adapter(pair([32, 2], [2, 32])), /do not fit/],
  [adapter(pair([32, 2], [3, 64])), /do not fit/],
  [adapter(pair([32, 2, 4], [2, 64, 4])), /do not fit/],
  [adapter(pair([32, 2], [2, 64], 'w_exps')), /do not fit/],
  [adapter(pair([32, 2, 3], [2, 64, 3], 'w_exps')), /do not fit/],
  [adapter(pair([32, 4097], [4097, 64])), /rank 4097.*the limit is 4096/],
  [adapter(pair([2, 16], [3, 32], 'token_embd.weight')), /do not fit/],
  [adapter(EMBEDDING), /also the output matrix/],
  [adapter().subarray(0, -64), /cut short/],
];

test('an adapter that fits the weights of its model is accepted, any other is refused with the reason', async ({
  file,
}) => {
  const weights: Row[] = [
    ['token_embd.weight', [32, 16]],
    ['w', [32, 64]],
    ['w_exps', [32, 64, 4]],
  ];
  const model = await file('model.gguf', gguf(tensorsOf(weights)));
  const untied = await file('untied.gguf', gguf(tensorsOf([...weights, ['output.weight', [32, 16]]])));
  const check = async (bytes: Uint8Array, of: string): Promise<void> => {
    await checkAdapter(await file('adapter.gguf', bytes), [of]);
  };
  for (const bytes of GOOD) await check(bytes, model);
  await check(adapter(EMBEDDING), untied);
  for (const [bytes, message] of BAD) {
    await rejection(() => check(bytes, model), 'MODEL_INVALID', message);
  }
});

test('an adapter is no model', async ({ store }) => {
  const { hint } = await rejection(
    () => store.add(adapterPath('qwen2')),
    'MODEL_INVALID',
    /is an adapter, not a model/,
  );
  assert.match(hint ?? '', /svc model add --adapter-of MODEL /);
});

test('the adapters of a model are copies in the store, which come and go with it', async ({ dir, store }) => {
  const { id } = await store.add(modelPath('tiny-llama'), { name: 'llama' });
  const source = join(dir, 'legal.gguf');
  await copyFile(adapterPath('llama-attention'), source);
  const legal = await store.adapters.add('LLAMA', source);
  await rm(source);
  assert.is(legal.id, 'legal');
  assert.equal(await readFile(legal.path), await readFile(adapterPath('llama-attention')));
  const forward = await store.adapters.add(id, adapterPath('llama-forward'), 'forward');
  assert.equal((await store.find(id)).adapters, [legal, forward]);

  const again = await store.adapters.add(id, adapterPath('llama-attention'));
  assert.equal(again, legal, 'the same content keeps its id and its place');
  const renamed = await store.adapters.add(id, adapterPath('llama-attention'), 'law');
  assert.equal((await store.find(id)).adapters, [legal, forward, renamed]);
  await store.adapters.remove(id, 'LEGAL');
  assert.ok(existsSync(renamed.path), 'another adapter has the same content');
  await store.adapters.remove(id, 'law');
  assert.not.ok(existsSync(renamed.path));
  await store.add(modelPath('tiny-llama'));
  assert.equal((await store.find(id)).adapters, [forward], 'also after the file was added again');

  await store.remove(id);
  assert.equal(readdirSync(join(dir, 'models', 'blobs')), []);
});

test('an adapter needs a free name, and an added model that generates text', async ({ store, file }) => {
  await store.add(modelPath('tiny-llama'), { name: 'llama' });
  await store.add(modelPath('tiny-bert'), { name: 'bert' });
  await store.adapters.add('llama', adapterPath('llama-attention'), 'legal');
  for (const [model, name, message] of [
    ['llama', 'Legal', /llama has an adapter with this name: Legal/],
    ['llama', '12', /cannot be the name of an adapter/],
    ['llama', '../x', /cannot be the name of an adapter/],
    ['builtin', 'x', /builtin takes no adapters: it is the built-in model/],
    ['bert', 'x', /bert takes no adapters: it generates no text/],
  ] as const) {
    const add = () => store.adapters.add(model, adapterPath('llama-forward'), name);
    await rejection(add, 'INVALID_REQUEST', message);
  }
  await rejection(() => store.adapters.add('gone', adapterPath('llama-forward')), 'MODEL_NOT_FOUND');
  await rejection(() => store.adapters.add('llama', '/gone.gguf'), 'MODEL_NOT_FOUND');
  await rejection(() => store.adapters.remove('llama', 'x'), 'INVALID_REQUEST', /llama has no adapter "x"/);
  await rejection(() => store.adapters.add('llama', adapterPath('qwen2')), 'MODEL_INVALID', /another base/);
  const numbered = await file('12.gguf', await readFile(adapterPath('llama-forward')));
  assert.is((await store.adapters.add('llama', numbered)).id, 'adapter-12', 'a number would be a place in the list');
});

test('an adapter whose file or whose model has changed is listed with the reason', async ({ dir, store }) => {
  const path = join(dir, 'model.gguf');
  await copyFile(modelPath('tiny-llama'), path);
  await store.add(path, { name: 'llama' });
  const legal = await store.adapters.add('llama', adapterPath('llama-attention'), 'legal');
  const errorOf = async (): Promise<string> => (await store.find('llama')).adapters?.[0]?.error ?? '';
  const verify = async (): Promise<Extract<VerifyEvent, { type: 'verified' }>[]> => {
    const events: VerifyEvent[] = [];
    await store.verify('llama', (event) => events.push(event));
    return events.filter((event) => event.type === 'verified');
  };

  const bytes = await readFile(legal.path);
  bytes.writeUInt8(bytes.readUInt8(bytes.length - 1) ^ 1, bytes.length - 1);
  await writeFile(legal.path, bytes);
  assert.is(await errorOf(), '', 'the size is the same');
  const [found] = await verify();
  assert.equal([found?.state, found?.problems.map(({ kind }) => kind)], ['damaged', ['digest']]);
  assert.match(found?.hint ?? '', /svc model rm --yes --adapter legal llama/);
  assert.match(await errorOf(), /^is damaged/);
  await store.adapters.add('llama', adapterPath('llama-attention'));
  assert.is(await errorOf(), '');
  assert.is((await verify())[0]?.state, 'ok');

  await truncate(legal.path, 100);
  assert.match(await errorOf(), /^is damaged/);
  await rm(legal.path);
  assert.match(await errorOf(), /^is missing/);
  await store.adapters.add('llama', adapterPath('llama-attention'));

  await copyFile(modelPath('tiny-qwen2'), path);
  assert.match(await errorOf(), /^was added for other weights/);
  await store.add(path);
  assert.match(await errorOf(), /^was added for other weights/);
  await copyFile(modelPath('tiny-llama'), path);
  await store.add(path);
  assert.is(await errorOf(), '');
});

test.run();

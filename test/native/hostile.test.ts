/** Invalid arguments to every function of the addon: each is rejected by name, and the engine keeps working. */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { EngineRequest } from '../../src/engine/addon.ts';
import { rejection } from '../support/errors.ts';
import { modelPath, openAddon, openEngine, type TestEngine } from '../support/native-engine.ts';

const test = suite<{ engine: TestEngine }>('hostile');
const ignore = (): void => undefined;

test.before(async (context) => {
  context.engine = await openEngine('tiny-llama');
});
/** Asserts after each test that the engine still works. */
test.after.each(async ({ engine }) => {
  assert.is((await engine.generate({ id: 1, prompt: 'a', max_tokens: 2 })).finish.usage.output_tokens, 2);
});
test.after(({ engine }) => engine.native.close());

test('submit', async ({ engine: { native } }) => {
  const prompt = 'x';
  const cases: [unknown, RegExp][] = [
    [undefined, /^request must be an object/],
    [null, /^request must be an object/],
    ['text', /^request must be an object/],
    [{}, /^id must be an integer from 0 to 4294967295/],
    [{ prompt }, /^id /],
    ...[-1, 1.5, NaN, Infinity, 2 ** 32, '1', 5n, null, [], {}].map((id): [unknown, RegExp] => [
      { id, prompt },
      /^id /,
    ]),
    [{ id: 2 }, /either messages or a prompt/],
    [{ id: 2, prompt, messages: [] }, /either messages or a prompt/],
    [{ id: 2, prompt: 5 }, /^prompt must be a string/],
    [{ id: 2, prompt: null }, /^prompt /],
    [{ id: 2, messages: [] }, /^messages must not be empty/],
    [{ id: 2, messages: {} }, /^messages must be an array/],
    [{ id: 2, messages: { length: 1e9 } }, /^messages must be an array/],
    [{ id: 2, messages: [{ role: 'user', content: 'a' }, null] }, /^messages\[1\] must be an object/],
    [{ id: 2, messages: [{ content: 'a' }] }, /^messages\[0\]\.role must be a string/],
    [{ id: 2, messages: [{ role: 'user', content: ['a'] }] }, /^messages\[0\]\.content must be a string/],
    [{ id: 2, prompt, max_tokens: -1 }, /^max_tokens /],
    [{ id: 2, prompt, max_tokens: 1e99 }, /^max_tokens /],
    [{ id: 2, prompt, sampling: { temperature: NaN } }, /^sampling\.temperature must be a finite number/],
    [{ id: 2, prompt, sampling: { temperature: 1e300 } }, /^sampling\.temperature /],
    [{ id: 2, prompt, sampling: { temperature: '1' } }, /^sampling\.temperature /],
    [{ id: 2, prompt, sampling: { top_k: -1 } }, /^sampling\.top_k /],
    [{ id: 2, prompt, sampling: { top_k: 2 ** 31 } }, /^sampling\.top_k /],
    [{ id: 2, prompt, sampling: { top_p: Infinity } }, /^sampling\.top_p /],
    [{ id: 2, prompt, sampling: { min_p: null } }, /^sampling\.min_p /],
    [{ id: 2, prompt, sampling: { repeat_penalty: {} } }, /^sampling\.repeat_penalty /],
    [{ id: 2, prompt, sampling: { frequency_penalty: [] } }, /^sampling\.frequency_penalty /],
    [{ id: 2, prompt, sampling: { presence_penalty: NaN } }, /^sampling\.presence_penalty /],
    [{ id: 2, prompt, sampling: { seed: -1 } }, /^sampling\.seed /],
    [{ id: 2, prompt, sampling: { seed: 0.1 } }, /^sampling\.seed /],
    [{ id: 2, prompt, sampling: { logit_bias: {} } }, /^sampling\.logit_bias must be an array/],
    [{ id: 2, prompt, sampling: { logit_bias: [1] } }, /^sampling\.logit_bias\[0\] must be an array/],
    [{ id: 2, prompt, sampling: { logit_bias: [[1, 2, 3]] } }, /^sampling\.logit_bias\[0\] must be a pair/],
    [{ id: 2, prompt, sampling: { logit_bias: [[-1, 2]] } }, /^sampling\.logit_bias\[0\]\[0\] /],
    [{ id: 2, prompt, sampling: { logit_bias: [[1, NaN]] } }, /^sampling\.logit_bias\[0\]\[1\] /],
    [{ id: 2, prompt, stop: 'x' }, /^stop must be an array/],
    [{ id: 2, prompt, stop: [1] }, /^stop\[0\] must be a string/],
    [{ id: 2, prompt, stop: new Array(4e9) }, /^stop\[0\] /],
    [{ id: 2, prompt, grammar: 5 }, /^grammar must be a string/],
    [{ id: 2, prompt, grammar: '' }, /^grammar must not be empty/],
    [{ id: 2, prompt, grammar: 'root ::= "' }, /^line 1, column 11: /],
    [{ id: 2, prompt, logprobs: -1 }, /^logprobs /],
    [{ id: 2, prompt, logprobs: 21 }, /^logprobs /],
  ];
  for (const [request, message] of cases) {
    await rejection(() => native.submit(request as EngineRequest), 'INVALID_REQUEST', message);
  }
});

test('extreme sampling settings, stop strings, grammars and prompts', async ({ engine }) => {
  const edges: Partial<EngineRequest>[] = [
    { sampling: { temperature: 0, top_k: 0, top_p: 0, min_p: 1 } },
    { sampling: { temperature: 3e38 } },
    { sampling: { temperature: 1e-38 } },
    { sampling: { temperature: -1 } },
    { sampling: { top_k: 2 ** 31 - 1, top_p: -1, min_p: -1 } },
    { sampling: { repeat_penalty: 0 } },
    { sampling: { repeat_penalty: -1, frequency_penalty: 3e38, presence_penalty: -3e38 } },
    { sampling: { seed: 0xffff_ffff } },
    { sampling: { logit_bias: [[2 ** 31 - 1, 1]] } },
    {
      sampling: {
        logit_bias: [
          [0, 3e38],
          [1, -3e38],
        ],
      },
    },
    { stop: [''] },
    { stop: ['\0', '\ud800', 'x'.repeat(100_000)] },
    { grammar: 'root ::= .*', logprobs: 20 },
    { grammar: 'root ::= [\\x00-\\U0010FFFF]{3}', sampling: { top_k: 0, logit_bias: [[5, -100]] } },
    { grammar: 'root ::= "\ud800\0"' },
    { grammar: 'root ::= "x"', sampling: { temperature: 0, repeat_penalty: 3 } },
    { max_tokens: 0 },
    { prompt: '' },
    { prompt: '\0\ud800\uffff' },
  ];
  for (const edge of edges) {
    try {
      const { finish } = await engine.generate({ id: 3, prompt: 'a', max_tokens: 3, ...edge });
      assert.ok(finish.usage.output_tokens <= 3, JSON.stringify(edge));
    } catch (error) {
      assert.is((error as { code?: unknown }).code, 'INVALID_REQUEST', `${JSON.stringify(edge)}: ${String(error)}`);
    }
  }
});

test('a getter that throws, and one that closes the engine', async () => {
  const { native } = await openEngine('tiny-llama');
  const boom = new Error('boom');
  const thrown = await native
    .submit({
      id: 1,
      get prompt(): string {
        throw boom;
      },
    })
    .catch((error: unknown) => error);
  assert.is(thrown, boom);
  await rejection(
    () =>
      native.submit({
        id: 1,
        prompt: 'a',
        sampling: {
          get seed() {
            void native.close();
            return 1;
          },
        },
      }),
    'ENGINE_UNAVAILABLE',
  );
  await rejection(
    () =>
      native.encode('a', {
        get addSpecial() {
          void native.close();
          return true;
        },
      }),
    'ENGINE_UNAVAILABLE',
  );
  await native.close();
});

test('tokens and text', async ({ engine: { native } }) => {
  const { vocabulary } = native.info;
  for (const tokens of [
    undefined,
    null,
    [1],
    'a',
    new Uint8Array(4),
    new Float32Array(2),
    new ArrayBuffer(8),
    { length: 1 },
  ]) {
    await rejection(() => native.detokenize(tokens as Int32Array), 'INVALID_REQUEST', /^tokens must be an Int32Array/);
  }
  for (const token of [-1, vocabulary, 2 ** 31 - 1, -(2 ** 31)]) {
    await rejection(() => native.detokenize(Int32Array.of(5, token)), 'INVALID_REQUEST', /is not in the vocabulary/);
  }
  const transferred = new Int32Array(4);
  structuredClone(transferred, { transfer: [transferred.buffer] });
  assert.is(native.detokenize(transferred), '');
  assert.type(native.detokenize(new Int32Array(new SharedArrayBuffer(8))), 'string');
  for (const text of [undefined, 1, {}, Symbol('a')]) {
    await rejection(() => native.encode(text as string), 'INVALID_REQUEST', /^text must be a string/);
  }
  await rejection(() => native.encode('a', 1 as never), 'INVALID_REQUEST', /^options must be an object/);
  await rejection(
    () => native.encode('a', { addSpecial: 1 as never }),
    'INVALID_REQUEST',
    /^addSpecial must be true or false/,
  );
  assert.is(native.detokenize(Int32Array.from(await native.encode('a\0b\ud800'))).trimStart(), 'a\0b\ufffd');
  for (const messages of [undefined, {}, [1], [{ role: 'user' }]]) {
    await rejection(() => native.render({ id: 1, messages } as never), 'INVALID_REQUEST');
  }
});

test('methods called on another object, and engines that were not created by load', async ({ engine: { native } }) => {
  assert.throws(() => native.stats.call({} as never), TypeError);
  assert.throws(() => native.cancel.call(Object.create(native) as never, 1), TypeError);
  const Engine = native.constructor as new (...args: unknown[]) => unknown;
  for (const args of [[], [{}], [native]]) {
    await rejection(() => new Engine(...args), 'INVALID_REQUEST', /use load\(\) to create an engine/);
  }
  for (const method of ['cancel', 'pause', 'resume'] as const) {
    for (const id of [-1, 0.5, NaN, undefined, '1', 2 ** 32]) {
      await rejection(
        () => {
          native[method](id as number);
        },
        'INVALID_REQUEST',
        /^id /,
      );
    }
  }
  await rejection(
    () => {
      native.hold(1 as never);
    },
    'INVALID_REQUEST',
    /^on must be/,
  );
});

test('load', async () => {
  const addon = openAddon();
  const path = modelPath('tiny-llama');
  const bad: [unknown[], RegExp][] = [
    [[], /^path must be a string/],
    [[1, {}, ignore, ignore], /^path must be a string/],
    [[`${path}\0.gguf`, {}, ignore, ignore], /null character/],
    [[path, undefined, ignore, ignore], /^options must be an object/],
    [[path, {}, undefined, ignore], /^onProgress must be a function/],
    [[path, {}, ignore, {}], /^onStep must be a function/],
    [[path, { context_length: -1 }, ignore, ignore], /^context_length /],
    [[path, { context_length: 2 ** 32 }, ignore, ignore], /^context_length /],
    [[path, { context_length: 2 ** 24 + 1 }, ignore, ignore], /^context_length /],
    [[path, { threads: 0.5 }, ignore, ignore], /^threads /],
    [[path, { threads: -1 }, ignore, ignore], /^threads /],
    [[path, { threads: 513 }, ignore, ignore], /^threads /],
    [[path, { gpu_layers: 'all' }, ignore, ignore], /^gpu_layers /],
    [[path, { main_gpu: 1 }, ignore, ignore], /^main_gpu must be a string/],
    [[path, { tensor_split: 1 }, ignore, ignore], /^tensor_split must be an array/],
    [[path, { tensor_split: [1, Infinity] }, ignore, ignore], /^tensor_split\[1\] must be a finite number/],
    [[path, { cpu_experts: -1 }, ignore, ignore], /^cpu_experts must be an integer/],
    [[path, { max_sequences: NaN }, ignore, ignore], /^max_sequences /],
  ];
  for (const [args, message] of bad) {
    await rejection(() => (addon.load as (...args: unknown[]) => unknown)(...args), 'INVALID_REQUEST', message);
  }
  const extreme = [
    { context_length: 1 },
    { threads: 16 },
    { max_sequences: 2 ** 32 - 1 },
    { max_sequences: 257 },
    { gpu_layers: -(2 ** 31) },
    { gpu_layers: 2 ** 31 - 1 },
    { main_gpu: '\u{10ffff}', tensor_split: Array.from({ length: 1000 }, () => 1), cpu_experts: 2 ** 32 - 1 },
  ];
  for (const options of extreme) {
    try {
      const engine = await addon.load(path, { context_length: 256, threads: 1, ...options }, ignore, ignore);
      await engine.close();
    } catch (error) {
      const { code } = error as { code?: unknown };
      assert.ok(code === 'INVALID_REQUEST' || code === 'OUT_OF_MEMORY', `${JSON.stringify(options)}: ${String(error)}`);
    }
  }
});

test('the rest of the addon', async () => {
  const addon = openAddon();
  for (const value of [undefined, null, 1, {}]) {
    await rejection(
      () => {
        addon.setErrorClass(value as never);
      },
      'INVALID_REQUEST',
      /^errorClass must be a function/,
    );
    await rejection(
      () => {
        addon.setLogger(value as never);
      },
      'INVALID_REQUEST',
      /^logger must be a function/,
    );
    await rejection(
      () => {
        addon.loadBackends(value as never);
      },
      'INVALID_REQUEST',
      /^directory must be a string/,
    );
  }
  for (const pid of [0, -1, 1.5, NaN, '1', undefined]) {
    await rejection(
      () => {
        addon.dieWithParent(pid as number);
      },
      'INVALID_REQUEST',
      /^parentPid /,
    );
  }
});

test.run();

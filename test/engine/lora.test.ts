/** LoRA adapters in a real engine process, driven by frames. */
import { copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { EngineRequest } from '../../src/engine/addon.ts';
import { startEngine } from '../support/engine-pipe.ts';
import { assertSure } from '../support/margin.ts';
import { waitFor } from '../support/wait.ts';

const MODELS = fileURLToPath(new URL('../../build/models/', import.meta.url));
const adapterPath = (name: string): string => join(MODELS, 'adapters', `${name}.gguf`);

const test = suite<{ folder: string }>('lora');
test.before.each(async (context) => {
  context.folder = await mkdtemp(join(tmpdir(), 'svc-lora-'));
});
test.after.each(async ({ folder }) => rm(folder, { recursive: true }));

async function start(adapters: readonly { id: string; path: string }[]) {
  const child = await startEngine();
  const { received, send } = child;
  send({
    type: 'load',
    model: 'tiny',
    path: join(MODELS, 'tiny-llama.gguf'),
    options: { context_length: 2048, threads: 1, adapters },
    parentPid: process.pid,
  });
  const loaded = await waitFor('the load', () => received.find((each) => each.type === 'loaded'));
  let last = 0;
  return {
    info: loaded.info,
    /** The whole text, with log probabilities if they are asked for, or the error. */
    ask: async (request: Omit<EngineRequest, 'id'>) => {
      last += 1;
      const id = last;
      send({ type: 'generate', request: { max_tokens: 6, sampling: { temperature: 0 }, ...request, id } });
      const outputs = () =>
        received.flatMap((each) => (each.type === 'step' ? each.outputs.filter((output) => output.id === id) : []));
      const end = await waitFor('the end', () =>
        outputs().find(({ finish, error }) => finish !== undefined || error !== undefined),
      );
      const text = outputs().map((output) => output.text);
      const logprobs = outputs().flatMap((output) => output.logprobs ?? []);
      return { text: text.join(''), logprobs, error: end.error };
    },
    stop: async () => {
      child.kill();
      await child.ended;
    },
  };
}

/** The model is sure of its answers with and without adapters. */
const prompt = 'The letter runs near the sea';

test('an engine process loads adapters in its sandbox, and a request chooses them by scale', async ({ folder }) => {
  // Outside the model's folder: the sandbox must know each file.
  const forward = join(folder, 'forward.gguf');
  await copyFile(adapterPath('llama-forward'), forward);
  const engine = await start([
    { id: 'attention', path: adapterPath('llama-attention') },
    { id: 'forward', path: forward },
  ]);
  try {
    assert.equal(engine.info.adapters, [
      { id: 'attention', error: '' },
      { id: 'forward', error: '' },
    ]);
    const textOf = async (lora?: EngineRequest['lora']) => {
      const { text, error } = await engine.ask({ prompt, ...(lora === undefined ? {} : { lora }) });
      assert.is(error, undefined);
      return text;
    };
    for (const lora of [[], [{ id: 'attention', scale: 1 }]])
      assertSure((await engine.ask({ prompt, lora, logprobs: 2 })).logprobs, JSON.stringify(lora));
    const base = await textOf();
    assert.is(await textOf([]), base);
    assert.is(await textOf([{ id: 'attention', scale: 0 }]), base);
    const attention = await textOf([{ id: 'attention', scale: 1 }]);
    const both = await textOf([
      { id: 'attention', scale: 1 },
      { id: 'forward', scale: 0.5 },
    ]);
    assert.is(new Set([base, attention, both]).size, 3);
    const together = await Promise.all([textOf(), textOf([{ id: 'attention', scale: 1 }]), textOf()]);
    assert.equal(together, [base, attention, base]);
  } finally {
    await engine.stop();
  }
});

test('an adapter that cannot be used, and a wrong choice, are named and leave the engine alive', async ({ folder }) => {
  const text = join(folder, 'text.gguf');
  await writeFile(text, 'no adapter');
  const engine = await start([
    { id: 'good', path: adapterPath('llama-forward') },
    { id: 'other', path: adapterPath('qwen2') },
    { id: 'text', path: text },
    { id: 'gone', path: join(folder, 'gone.gguf') },
  ]);
  try {
    const errors = new Map(engine.info.adapters.map(({ id, error }) => [id, error]));
    assert.is(errors.get('good'), '');
    assert.match(errors.get('other') ?? '', /another base model/);
    assert.match(errors.get('text') ?? '', /not a GGUF file/);
    assert.match(errors.get('gone') ?? '', /missing/);
    const refusal = async (lora: unknown) => {
      const { error } = await engine.ask({ prompt, lora: lora as NonNullable<EngineRequest['lora']> });
      assert.ok(error !== undefined);
      assert.is(error.code, 'INVALID_REQUEST');
      return error;
    };
    for (const [lora, words] of [
      [[{ id: 'other', scale: 1 }], /the adapter "other" was made for another base model/],
      [[{ id: 'gone', scale: 1 }], /the adapter "gone" is missing/],
      [[{ id: 'nobody', scale: 1 }], /no adapter "nobody"/],
      [
        [
          { id: 'good', scale: 1 },
          { id: 'good', scale: 2 },
        ],
        /listed twice/,
      ],
    ] as const) {
      const error = await refusal(lora);
      assert.is(error.param, 'lora');
      assert.match(error.message, words);
    }
    assert.match((await refusal([{ id: 'good', scale: 'much' }])).message, /lora\[0\]\.scale must be a finite number/);
    // Infinity, in JSON.
    assert.match((await refusal([{ id: 'good', scale: 1e300 }])).message, /lora\[0\]\.scale must be a finite number/);
    assert.match((await refusal('good')).message, /lora must be an array/);
    assert.ok((await engine.ask({ prompt, lora: [{ id: 'good', scale: 1 }] })).text.length > 0);
  } finally {
    await engine.stop();
  }
});

test.run();

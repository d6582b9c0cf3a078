/** Loading a model, its properties, and its tokens. */
import { mkdtemp, open, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { EngineRequest } from '../../src/engine/addon.ts';
import { rejection } from '../support/errors.ts';
import { modelPath, openAddon, openEngine, TEST_MODELS, type TestEngine } from '../support/native-engine.ts';
import { startStopwatch } from '../support/stopwatch.ts';

const TEXTS = ['Hello, world', 'one  two\n\n\tthree', 'naïve café — 日本語 🙂🇨🇭', '0123456789', '<|im_end|> is text'];
const ignore = (): void => undefined;

for (const model of TEST_MODELS) {
  const models = suite<{ engine: TestEngine }>(model);

  models.before(async (context) => {
    context.engine = await openEngine(model);
  });
  models.after(({ engine }) => engine.native.close());

  models('reports its description', ({ engine }) => {
    const { info } = engine.native;
    assert.ok(info.device.length > 0);
    assert.is(info.layers, 2);
    assert.is(info.context_length, 2048);
    assert.is(info.trained_context_length, 8192);
    assert.ok(info.vocabulary > 30_000 && info.embedding_length >= 64);
    assert.throws(() => Object.assign(info, { layers: 3 }), TypeError);
  });

  models('text converts to tokens and back to the same text', async ({ engine: { native } }) => {
    for (const text of TEXTS) {
      const tokens = await native.encode(text);
      assert.ok(tokens.every((token) => token >= 0 && token < native.info.vocabulary));
      assert.is(native.detokenize(Int32Array.from(tokens)).trimStart(), text);
    }
    assert.equal(await native.encode(''), []);
    assert.is(native.detokenize(new Int32Array()), '');
  });

  models('a rendered chat has its roles and a generation prompt', async ({ engine: { native } }) => {
    const promptOf = async (messages: NonNullable<EngineRequest['messages']>): Promise<string> =>
      (await native.render({ id: 1, messages })).prompt;
    const short = await promptOf([{ role: 'user', content: 'What is svc?' }]);
    const long = await promptOf([
      { role: 'user', content: 'What is svc?' },
      { role: 'assistant', content: 'A daemon.' },
      { role: 'user', content: 'Why?' },
    ]);
    assert.ok(short.includes('What is svc?') && short.includes('user'));
    assert.ok(long.includes('A daemon.') && long.lastIndexOf('Why?') > long.indexOf('A daemon.'));
  });

  models.run();
}

const tokens = suite<{ engine: TestEngine }>('special tokens');
tokens.before(async (context) => {
  context.engine = await openEngine('tiny-qwen2');
});
tokens.after(({ engine }) => engine.native.close());

tokens('are parsed and shown only on request', async ({ engine: { native } }) => {
  const parsed = Int32Array.from(await native.encode('<|im_end|>', { parseSpecial: true }));
  assert.is(parsed.length, 1);
  assert.ok((await native.encode('<|im_end|>')).length > 1);
  assert.is(native.detokenize(parsed), '');
  assert.is(native.detokenize(parsed, { special: true }), '<|im_end|>');
});

tokens('BOS is added only on request', async () => {
  const { native } = await openEngine('tiny-llama');
  const plain = await native.encode('Hello');
  const begun = await native.encode('Hello', { addSpecial: true });
  assert.is(begun.length, plain.length + 1);
  assert.equal(begun.slice(1), plain);
  await native.close();
});
tokens.run();

const loading = suite<{ dir: string }>('loading');
loading.before(async (context) => {
  context.dir = await mkdtemp(join(tmpdir(), 'svc-native-'));
});
loading.after(({ dir }) => rm(dir, { recursive: true, force: true }));

loading('reports progress that rises to 1', async () => {
  const fractions: number[] = [];
  const engine = await openAddon().load(
    modelPath('tiny-llama'),
    { threads: 1 },
    (fraction) => fractions.push(fraction),
    ignore,
  );
  assert.ok(fractions.length > 0);
  assert.equal(
    fractions,
    [...fractions].sort((a, b) => a - b),
  );
  assert.is(fractions.at(-1), 1);
  assert.ok(engine.stats().kv_cells_total > 0);
  await engine.close();
});

loading('does not block the JavaScript thread', async () => {
  const [startedAt, taken] = [performance.now(), startStopwatch()];
  const load = openAddon().load(modelPath('tiny-qwen2'), { threads: 1 }, ignore, ignore);
  const returnedMs = taken.ms();
  const engine = await load;
  const loadedMs = performance.now() - startedAt;
  assert.ok(returnedMs < loadedMs / 2, `${returnedMs.toFixed(1)} of ${loadedMs.toFixed(1)} ms`);
  await engine.close();
});

loading('rejects files that are not models, with the reason', async ({ dir }) => {
  const addon = openAddon();
  const whole = await readFile(modelPath('tiny-llama'));
  const hugeCount = Buffer.from(whole.subarray(0, 4096));
  hugeCount.writeBigUInt64LE(2n ** 62n, 16);
  const files: Record<string, Uint8Array> = {
    'empty.gguf': Buffer.alloc(0),
    'text.gguf': Buffer.from('This is a text file, not a model.\n'.repeat(100)),
    'magic.gguf': Buffer.concat([Buffer.from('GGML'), whole.subarray(4, 8192)]),
    'header-cut.gguf': whole.subarray(0, 20_000),
    'data-cut.gguf': whole.subarray(0, whole.length - 100_000),
    'huge-count.gguf': hugeCount,
  };
  for (const [name, bytes] of Object.entries(files)) await writeFile(join(dir, name), bytes);
  for (const path of [
    ...Object.keys(files).map((name) => join(dir, name)),
    dir,
    join(dir, 'absent.gguf'),
    '',
    '/dev/null',
  ]) {
    const { message } = await rejection(() => addon.load(path, {}, ignore, ignore), 'MODEL_INVALID');
    assert.ok(message.length > 10 && !message.endsWith('.'), message);
  }
  const engine = await openEngine('tiny-llama'); // the process still works
  await engine.native.close();
});

loading('a damaged file is rejected or loads, without a crash', async ({ dir }) => {
  const addon = openAddon();
  const path = join(dir, 'damaged.gguf');
  await writeFile(path, await readFile(modelPath('tiny-llama')));
  const file = await open(path, 'r+');
  const original = Buffer.alloc(1);
  for (let offset = 4; offset < 4000; offset += 211) {
    await file.read(original, 0, 1, offset);
    await file.write(Buffer.of(original.readUInt8() ^ 0xff), 0, 1, offset);
    try {
      const engine = await addon.load(path, { context_length: 256, threads: 1 }, ignore, ignore);
      await engine.close();
    } catch (error) {
      assert.is((error as { code?: unknown }).code, 'MODEL_INVALID');
    }
    await file.write(original, 0, 1, offset);
  }
  await file.close();
});
loading.run();

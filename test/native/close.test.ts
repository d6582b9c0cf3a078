/** Closing an engine explicitly, and garbage collection of a forgotten one. */
import { readdirSync } from 'node:fs';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { NativeEngine, NativeOutput } from '../../src/engine/addon.ts';
import { rejection } from '../support/errors.ts';
import { ENDLESS_CONTEXT, ENDLESS_TOKENS, modelPath, openAddon, openEngine } from '../support/native-engine.ts';
import { waitFor } from '../support/wait.ts';

const ignore = (): void => undefined;

/** Number of threads of this process; 0 where it is unknown (not Linux). */
const threads = (): number => (process.platform === 'linux' ? readdirSync('/proc/self/task').length : 0);

test('close ends running generations, reports their end, and then resolves', async () => {
  const engine = await openEngine('tiny-llama', { context_length: ENDLESS_CONTEXT });
  const answers = Promise.all(
    [1, 2, 3].map(async (id) => {
      const { finish } = await engine.generate({
        id,
        prompt: 'a',
        sampling: { temperature: 0 },
        max_tokens: ENDLESS_TOKENS,
      });
      return finish.reason;
    }),
  );
  await waitFor('text of all', () => [1, 2, 3].every((id) => engine.text(id).length > 0));
  let told: readonly string[] | undefined;
  void answers.then((reasons) => (told = reasons));
  await engine.native.close();
  await Promise.resolve();
  assert.equal(await answers, ['cancelled', 'cancelled', 'cancelled']);
  assert.ok(told !== undefined);
});

test('close is idempotent, and later calls are rejected', async () => {
  const { native } = await openEngine('tiny-llama');
  const first = native.close();
  const second = native.close();
  for (const use of [
    () => native.stats(),
    () => native.detokenize(Int32Array.of(1)),
    () => native.encode('a'),
    () => native.pieces(Int32Array.of(1)),
    () => native.render({ id: 1, prompt: 'a' }),
    () => native.submit({ id: 1, prompt: 'a' }),
  ]) {
    await rejection(use, 'ENGINE_UNAVAILABLE', /closed/);
  }
  native.cancel(1);
  native.pause(1);
  native.resume(1);
  native.hold(true);
  assert.is(native.info.layers, 2);
  await Promise.all([first, second, native.close()]);
});

test('close with generations being submitted, paused or held: each gets a result before close resolves', async () => {
  for (let round = 0; round < 5; round++) {
    const engine = await openEngine('tiny-llama');
    const refusals: string[] = [];
    for (let id = 0; id < 8; id++) {
      engine.native
        .submit({ id, prompt: 'word '.repeat(300 * round) + 'x', max_tokens: 1000 })
        .catch((error: unknown) => {
          refusals.push((error as { code: string }).code);
        });
    }
    engine.native.pause(3);
    engine.native.hold(round % 2 === 0);
    await engine.native.close();
    const ends = engine.steps.flat().flatMap(({ finish }) => finish ?? []);
    assert.is(ends.length + refusals.length, 8);
    assert.ok(ends.every(({ reason }) => reason === 'cancelled'));
    assert.ok(
      refusals.every((code) => code === 'ENGINE_UNAVAILABLE'),
      refusals.join(),
    );
  }
});

test('loading and closing engines leaves no thread behind', async () => {
  await (await openEngine('tiny-llama', { threads: 2 })).native.close();
  const before = threads();
  for (let round = 0; round < 8; round++) {
    const engine = await openEngine('tiny-llama', { threads: 2 });
    if (process.platform === 'linux') assert.ok(threads() > before);
    await engine.generate({ id: 1, prompt: 'a', max_tokens: 2 });
    await engine.native.close();
  }
  assert.is(threads(), before);
});

test('a forgotten engine is collected with its threads, even if its own onStep refers to it', async () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const before = threads();
  const collected: boolean[] = [];
  const registry = new FinalizationRegistry<number>((round) => (collected[round] = true));
  for (let round = 0; round < 4; round++) {
    const holder: { engine?: NativeEngine; outputs: NativeOutput[] } = { outputs: [] };
    holder.engine = await openAddon().load(
      modelPath('tiny-llama'),
      { context_length: 256, threads: 1 },
      ignore,
      (outputs) => {
        if (holder.engine !== undefined) holder.outputs.push(...outputs);
      },
    );
    await holder.engine.submit({ id: 1, prompt: 'a', max_tokens: 3 });
    await waitFor('the end', () => holder.outputs.some(({ finish }) => finish !== undefined));
    registry.register(holder.engine, round);
  }
  await waitFor('the collector', () => {
    collect();
    return collected.filter(Boolean).length === 4 && threads() <= before;
  });
});

test('a working engine is not collected, even without other references', async () => {
  const collect = runInNewContext('gc') as () => void;
  const reason = await new Promise<string>((resolve, reject) => {
    const begin = async (): Promise<void> => {
      const engine = await openAddon().load(
        modelPath('tiny-llama'),
        { context_length: 2048, threads: 1 },
        ignore,
        (outputs) => {
          collect();
          for (const { finish } of outputs) if (finish !== undefined) resolve(finish.reason);
        },
      );
      await engine.submit({ id: 1, prompt: 'a', max_tokens: 100, sampling: { temperature: 0 } });
    };
    begin().catch(reject);
  });
  assert.is(reason, 'length');
});

test.run();

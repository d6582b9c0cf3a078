/** The end of an engine: asked for, or forgotten. */
import { readdirSync } from 'node:fs';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { NativeEngine, NativeOutput } from '../../src/engine/addon.ts';
import { rejection } from '../support/errors.ts';
import { modelPath, openAddon, openEngine } from '../support/native-engine.ts';
import { waitFor } from '../support/wait.ts';

const ignore = (): void => undefined;

/** Linux: the threads of this process, counted by the kernel. */
const threads = (): number => readdirSync('/proc/self/task').length;

test('close ends what runs, tells so, and only then resolves', async () => {
  const engine = await openEngine('tiny-llama');
  const answers = Promise.all(
    [1, 2, 3].map(async (id) => {
      const { finish } = await engine.generate({ id, prompt: 'a', temperature: 0, maxTokens: 1900 });
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

test('close is idempotent, and everything after it is refused', async () => {
  const { native } = await openEngine('tiny-llama');
  const first = native.close();
  const second = native.close();
  for (const use of [
    () => native.stats(),
    () => native.tokenize('a'),
    () => native.detokenize(Int32Array.of(1)),
    () => native.renderChat([{ role: 'user', content: 'a' }]),
    () => native.submit({ id: 1, prompt: 'a' }),
  ]) {
    await rejection(use, 'ENGINE_UNAVAILABLE', /closed/);
  }
  native.cancel(1);
  native.pause(1);
  native.resume(1);
  native.hold(true);
  assert.is(native.info.architecture, 'llama');
  await Promise.all([first, second, native.close()]);
});

test('close while generations are being submitted, paused and held', async () => {
  const engine = await openEngine('tiny-llama');
  const prompt = 'word '.repeat(300);
  const settled = Promise.allSettled(
    Array.from({ length: 8 }, (_, id) => engine.generate({ id, prompt, maxTokens: 1000 })),
  );
  engine.native.pause(3);
  engine.native.hold(true);
  await engine.native.close();
  for (const result of await settled) {
    if (result.status === 'fulfilled') assert.is(result.value.finish.reason, 'cancelled');
    else
      assert.ok(
        ['ENGINE_UNAVAILABLE', 'CANCELLED'].includes((result.reason as { code: string }).code),
        String(result.reason),
      );
  }
});

test('engines come and go without leaving a thread', async () => {
  await (await openEngine('tiny-llama', { threads: 2 })).native.close();
  const before = threads();
  for (let round = 0; round < 8; round++) {
    const engine = await openEngine('tiny-llama', { threads: 2 });
    assert.ok(threads() > before);
    await engine.generate({ id: 1, prompt: 'a', maxTokens: 2 });
    await engine.native.close();
  }
  assert.is(threads(), before);
});

test('a forgotten engine is collected with its threads, also one that its own onStep refers to', async () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const before = threads();
  const collected: boolean[] = [];
  const registry = new FinalizationRegistry<number>((round) => (collected[round] = true));
  for (let round = 0; round < 4; round++) {
    const holder: { engine?: NativeEngine; outputs: NativeOutput[] } = { outputs: [] };
    holder.engine = await openAddon().load(
      modelPath('tiny-llama'),
      { contextLength: 256, threads: 1 },
      ignore,
      (outputs) => {
        if (holder.engine !== undefined) holder.outputs.push(...outputs);
      },
    ).done;
    await holder.engine.submit({ id: 1, prompt: 'a', maxTokens: 3 });
    await waitFor('the end', () => holder.outputs.some(({ finish }) => finish !== undefined));
    registry.register(holder.engine, round);
  }
  assert.ok(threads() > before);
  await waitFor('the collector', () => {
    collect();
    return collected.filter(Boolean).length === 4 && threads() <= before;
  });
});

test('an engine at work is not collected, though nothing else holds it', async () => {
  const collect = runInNewContext('gc') as () => void;
  const reason = await new Promise<string>((resolve, reject) => {
    const begin = async (): Promise<void> => {
      const engine = await openAddon().load(
        modelPath('tiny-llama'),
        { contextLength: 2048, threads: 1 },
        ignore,
        (outputs) => {
          collect();
          for (const { finish } of outputs) if (finish !== undefined) resolve(finish.reason);
        },
      ).done;
      await engine.submit({ id: 1, prompt: 'a', maxTokens: 100, temperature: 0 });
    };
    begin().catch(reject);
  });
  assert.is(reason, 'length');
});

test.run();

/** Generations through the addon: concurrent, in order, one JavaScript wake-up per step. */
import { setTimeout as sleep } from 'node:timers/promises';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { EngineRequest } from '../../src/engine/addon.ts';
import { rejection } from '../support/errors.ts';
import { ENDLESS_CONTEXT, ENDLESS_TOKENS, openEngine, type TestEngine } from '../support/native-engine.ts';
import { PATIENCE_MS, waitFor } from '../support/wait.ts';

const test = suite<{ engine: TestEngine }>('generate');

test.before(async (context) => {
  context.engine = await openEngine('tiny-qwen2');
});
test.after(({ engine }) => engine.native.close());

let nextId = 1;
const greedy = (max_tokens: number, sampling: EngineRequest['sampling'] = {}) => ({
  id: nextId++,
  prompt: 'The quick brown fox',
  max_tokens,
  sampling: { temperature: 0, ...sampling },
});

/** Asserts that generation `id` stands still while others run. The first run drains outputs that were in flight. */
async function assertStands(engine: TestEngine, id: number): Promise<void> {
  await engine.generate(greedy(20));
  const { length } = engine.text(id);
  await engine.generate(greedy(20));
  assert.is(engine.text(id).length, length);
}

test('a raw prompt and a chat are answered, with usage and timings', async ({ engine }) => {
  const { native } = engine;
  const request = greedy(8);
  const answered = engine.answer(request.id);
  assert.is(await native.submit(request), (await native.encode(request.prompt, { addSpecial: true })).length);
  const { text, finish } = await answered;
  assert.ok(text.length > 0);
  assert.is(finish.reason, 'length');
  assert.is(finish.usage.output_tokens, 8);
  assert.is(finish.usage.input_tokens, 4);
  assert.is(finish.usage.cached_tokens, 0);
  const { started_ms, first_token_ms, finished_ms } = finish.timings;
  assert.ok(started_ms !== null && first_token_ms !== null);
  assert.ok(0 <= started_ms && started_ms <= first_token_ms && first_token_ms <= finished_ms);

  const messages = [{ role: 'user', content: 'Hello' }];
  const chat = await engine.generate({ id: nextId++, messages, sampling: { temperature: 0 }, max_tokens: 4 });
  const { prompt } = await native.render({ id: nextId++, messages });
  const rendered = await native.encode(prompt, { parseSpecial: true });
  assert.is(chat.finish.usage.input_tokens, rendered.length);
});

test('two concurrent generations give the same text as each alone', async ({ engine }) => {
  // Without the prefix cache, because cached cells and draft batches round differently.
  const plain = { reuse_prefix: false };
  const alone = [
    await engine.generate({ ...greedy(40), ...plain, prompt: 'One' }),
    await engine.generate({ ...greedy(40), ...plain, prompt: 'Two and some more' }),
  ];
  const stepsBefore = engine.steps.length;
  engine.native.hold(true);
  const both = Promise.all([
    engine.generate({ ...greedy(40), ...plain, prompt: 'One' }),
    engine.generate({ ...greedy(40), ...plain, prompt: 'Two and some more' }),
  ]);
  await waitFor('both to be submitted', () => engine.native.stats().waiting === 2);
  engine.native.hold(false);
  const together = await both;
  assert.equal(
    together.map(({ text }) => text),
    alone.map(({ text }) => text),
  );
  assert.ok(engine.steps.slice(stepsBefore).some((outputs) => outputs.length === 2));
});

test('JavaScript is woken at most once per step', async ({ engine }) => {
  const { native, steps } = engine;
  const callsBefore = steps.length;
  const stepsBefore = native.stats().steps.count;
  const answers = await Promise.all(Array.from({ length: 8 }, () => engine.generate({ ...greedy(50) })));
  const calls = steps.length - callsBefore;
  const computed = native.stats().steps.count - stepsBefore;
  assert.ok(answers.every(({ finish }) => finish.usage.output_tokens === 50));
  assert.ok(calls <= computed, `${String(calls)} calls for ${String(computed)} steps`);
  assert.ok(computed < 8 * 50, 'the generations were batched');
  assert.ok(
    steps.every((outputs) => outputs.length > 0 && new Set(outputs.map(({ id }) => id)).size === outputs.length),
  );
});

test('outputs that a busy JavaScript thread missed are joined, and none is lost', async ({ engine }) => {
  const expected = await engine.generate(greedy(60, { seed: 1 }));
  const request = greedy(60, { seed: 1 });
  const answered = engine.answer(request.id);
  await engine.native.submit(request);
  const callsBefore = engine.steps.length;
  const deadline = performance.now() + PATIENCE_MS;
  const isAnswering = (): boolean => {
    const { active, waiting } = engine.native.stats();
    return active + waiting > 0;
  };
  // Keeps this thread busy while the whole answer is produced.
  while (isAnswering()) assert.ok(performance.now() < deadline);
  const { text, finish } = await answered;
  assert.is(text, expected.text);
  assert.is(finish.usage.output_tokens, 60);
  const calls = engine.steps.length - callsBefore;
  assert.ok(calls <= 2, `${String(calls)} calls`); // the last output may just miss the first call
});

test('the promise of submit settles before the first output', async ({ engine }) => {
  const order: string[] = [];
  const requests = Array.from({ length: 12 }, () => greedy(1));
  await Promise.all(
    requests.map(async (request) => {
      const answered = engine.answer(request.id).then(() => order.push(`answer ${String(request.id)}`));
      await engine.native.submit(request);
      order.push(`accepted ${String(request.id)}`);
      await answered;
    }),
  );
  for (const { id } of requests) {
    assert.ok(order.indexOf(`accepted ${String(id)}`) < order.indexOf(`answer ${String(id)}`));
  }
});

test('the text ends before a stop string, and contains no part of it', async ({ engine }) => {
  const { text } = await engine.generate(greedy(40));
  const stop = text.slice(10, 14);
  const stopped = await engine.generate({ ...greedy(40), stop: ['never in the text', stop] });
  assert.is(stopped.finish.reason, 'stop');
  assert.is(stopped.text, text.slice(0, text.indexOf(stop)));
});

test('the same seed repeats a text, another seed changes it, a logit bias changes it', async ({ engine }) => {
  const sampled = (seed: number) => ({
    id: nextId++,
    prompt: 'Once',
    max_tokens: 24,
    sampling: { temperature: 1, seed },
  });
  const [first, again, other] = [
    await engine.generate(sampled(7)),
    await engine.generate(sampled(7)),
    await engine.generate(sampled(8)),
  ];
  assert.is(first.text, again.text);
  assert.is.not(first.text, other.text);
  const [token = -1] = await engine.native.encode('svc');
  const bent = await engine.generate(greedy(3, { logit_bias: [[token, 100]] }));
  assert.is(bent.text, engine.native.detokenize(Int32Array.of(token, token, token)));
});

test('cancel ends a generation and keeps the text before it', async () => {
  const engine = await openEngine('tiny-qwen2', { context_length: ENDLESS_CONTEXT });
  const request = greedy(ENDLESS_TOKENS);
  const answered = engine.answer(request.id);
  await engine.native.submit(request);
  await waitFor('text', () => engine.text(request.id).length > 0);
  engine.native.cancel(request.id);
  const { finish, text } = await answered;
  assert.is(finish.reason, 'cancelled');
  assert.ok(text.length > 0 && finish.usage.output_tokens < ENDLESS_TOKENS);
  engine.native.cancel(request.id); // already ended: ignored
  engine.native.cancel(4_000_000_000);
  await engine.native.close();
});

test('cancel and pause reach a generation that is still being submitted', async ({ engine }) => {
  const request = greedy(1500);
  const answered = engine.answer(request.id);
  const submitted = engine.native.submit(request);
  engine.native.cancel(request.id);
  assert.is(await submitted, 4);
  assert.is((await answered).finish.reason, 'cancelled');

  const paused = greedy(1500);
  const end = engine.answer(paused.id);
  const accepted = engine.native.submit(paused);
  engine.native.pause(paused.id);
  await accepted;
  await assertStands(engine, paused.id);
  engine.native.cancel(paused.id);
  assert.is((await end).finish.reason, 'cancelled');
});

test('a paused generation waits while others continue, and gives the same text after resume', async ({ engine }) => {
  const { native } = engine;
  // With a seed the text is deterministic, whatever is computed in the same batch.
  const expected = await engine.generate(greedy(200, { seed: 1 }));
  const request = greedy(200, { seed: 1 });
  const answered = engine.answer(request.id);
  await native.submit(request);
  await waitFor('text', () => engine.text(request.id).length > 0);
  native.pause(request.id);
  await assertStands(engine, request.id);
  native.resume(request.id);
  assert.is((await answered).text, expected.text);
});

test('hold stops the runner, and outputs produced before still arrive', async ({ engine }) => {
  const { native } = engine;
  const request = greedy(2000);
  // Holds inside the onStep call with the first text, so that little is computed after it.
  const held = new Promise<void>((resolve) => {
    engine.onFirstText(request.id, () => {
      native.hold(true);
      resolve();
    });
  });
  const answered = engine.answer(request.id);
  await native.submit(request);
  await held;
  let last = -1;
  const steps = await waitFor('the last step', () => {
    const now = native.stats();
    return now.step_age_ms === 0 && last === (last = now.steps.count) && now.steps.count;
  });
  await sleep(100);
  assert.is(native.stats().steps.count, steps);
  assert.is(native.stats().active, 1);
  native.hold(false);
  assert.is((await answered).finish.usage.output_tokens, 2000);
});

test('the statistics count steps and tokens', async ({ engine }) => {
  const { native } = engine;
  const before = native.stats();
  assert.is(before.active, 0);
  assert.is(before.waiting, 0);
  assert.is(before.step_age_ms, 0);
  await engine.generate(greedy(10));
  const after = native.stats();
  assert.is(after.steps.generated_tokens - before.steps.generated_tokens, 10);
  assert.ok(after.steps.count > before.steps.count && after.steps.prompt_tokens > before.steps.prompt_tokens);
  assert.is(after.kv_cells_total, 2048);
});

test('with a seed no drafts are made; without one, accepted tokens never exceed drafted ones', async ({ engine }) => {
  const { native } = engine;
  const prompt = 'A list: one, two, three, four; one, two, three, four; one, two,';
  const { drafted_tokens } = native.stats().steps;
  await engine.generate({ ...greedy(100, { seed: 1 }), prompt });
  assert.is(native.stats().steps.drafted_tokens, drafted_tokens);
  // Whether drafting pays depends on the machine.
  await engine.generate({ ...greedy(100), prompt });
  const after = native.stats().steps;
  assert.ok(after.drafted_tokens >= drafted_tokens && after.accepted_tokens <= after.drafted_tokens);
});

test('a prompt longer than the context is rejected with both lengths, and its id is free again', async ({ engine }) => {
  const prompt = 'word '.repeat(3000);
  const { length } = await engine.native.encode(prompt);
  const { message, overflow } = await rejection(() => engine.native.submit({ id: 77_777, prompt }), 'CONTEXT_OVERFLOW');
  assert.ok(message.includes(String(length)) && message.includes('2048'), message);
  assert.equal(overflow, { prompt_tokens: length, is_minimum: false, context_length: 2048 });
  assert.is((await engine.generate({ ...greedy(2), id: 77_777 })).finish.usage.output_tokens, 2);
});

test('a prompt that is far too long is rejected before it is rendered and tokenised', async ({ engine }) => {
  const text = 'the quick brown fox '.repeat(1_600_000);
  const content = `<|im_end|>${text}`;
  for (const prompt of [{ prompt: text }, { messages: [{ role: 'user', content }] }]) {
    const refused = await rejection(() => engine.native.submit({ id: 77_778, ...prompt }), 'CONTEXT_OVERFLOW');
    const { message, overflow } = refused;
    assert.is(overflow?.is_minimum, true);
    assert.match(
      message,
      /^the prompt is too long: it has at least \d{6,} tokens, and the context of 2048 has room for 2047 /,
    );
  }
});

test('an id is usable by one generation at a time, and again inside the onStep call that ends it', async () => {
  const seen: string[] = [];
  const engine = await openEngine('tiny-llama');
  const first = engine.answer(5);
  await engine.native.submit({ id: 5, prompt: 'a', max_tokens: 50, sampling: { temperature: 0 } });
  await rejection(() => engine.native.submit({ id: 5, prompt: 'b' }), 'INVALID_REQUEST', /id 5 is in use/);
  seen.push((await first).finish.reason);
  seen.push((await engine.generate({ id: 5, prompt: 'a', max_tokens: 2 })).finish.reason);
  assert.equal(seen, ['length', 'length']);
  await engine.native.close();
});

test('generations beyond the number of sequences wait in a queue', async () => {
  const engine = await openEngine('tiny-qwen2', { max_sequences: 2, context_length: ENDLESS_CONTEXT });
  // The first two do not end by themselves, however late this thread sees their text.
  const ids = [1, 2, 3, 4, 5, 6, 7];
  const lengthOf = (id: number): number => (id <= 2 ? ENDLESS_TOKENS : 200);
  const answers = ids.map((id) => engine.answer(id));
  engine.native.hold(true);
  // One after another: those that are prepared at the same time are queued in any order.
  for (const id of ids) {
    await engine.native.submit({
      id,
      prompt: 'x',
      max_tokens: lengthOf(id),
      sampling: { temperature: 0 },
      reuse_prefix: false,
    });
  }
  assert.is(engine.native.stats().waiting, 7);
  engine.native.hold(false);
  await waitFor('text of both', () => engine.text(1).length > 0 && engine.text(2).length > 0);
  const { active, waiting } = engine.native.stats();
  assert.equal({ active, waiting }, { active: 2, waiting: 5 });
  for (const id of [1, 2]) engine.native.cancel(id);
  const texts = (await Promise.all(answers)).slice(2).map(({ text }) => text);
  assert.is(new Set(texts).size, 1);
  await engine.native.close();
});

test.run();

/** `POST /api/embed` with more texts than one of our requests may have, and with empty ones. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../../src/protocol/errors.ts';
import { LIMITS } from '../../../src/protocol/limits.ts';
import { ask } from '../ask.ts';
import { FINISH, measured, startScripted, type ScriptedListener } from '../scripted.ts';

let listener: ScriptedListener;
test.before.each(async () => {
  listener = await startScripted();
});
test.after.each(async () => await listener.stop());

/** Each has another length, so another vector; the last one is empty. */
const MANY = Array.from({ length: LIMITS.embedInputs + 3 }, (_, index) => 'x'.repeat((index % 5) + 1)).concat('');

test('any number of texts is embedded in batches, an empty one as a blank', async () => {
  const usage = { input_tokens: 7, output_tokens: 0, cached_tokens: 0 };
  listener.backend.embedScript = async function* (request) {
    for await (const event of measured(request))
      yield event.type === 'finish' ? { ...FINISH, usage: { ...usage, truncated_tokens: 2 } } : event;
  };
  const answer = await ask(listener, '/api/embed', { body: { model: 'tiny', input: MANY, keep_alive: 0 } });
  const { embeddings, ...figures } = answer.json();
  assert.equal(
    embeddings.map(([length]: number[]) => length),
    MANY.map(({ length }) => Math.max(length, 1)),
  );
  const { total_duration, load_duration, ...counts } = figures;
  assert.ok(total_duration > 0 && load_duration > 0);
  assert.equal(counts, { model: 'tiny', prompt_eval_count: 14, truncated_tokens: 4 });
  const requests = listener.backend.embedRequests;
  assert.equal(
    requests.map(({ input, keep_alive_seconds }) => [input.length, keep_alive_seconds]),
    [
      [LIMITS.embedInputs, undefined],
      [4, 0],
    ],
  );
  assert.is(requests[1]?.input.at(-1), ' ');
});

test('a wrong text is named by its place among all; an error after the first batch cuts the answer', async () => {
  const at = LIMITS.embedInputs + 1;
  const body = { model: 'tiny', input: MANY.map((text, index) => (index === at ? {} : text)) };
  const wrong = await ask(listener, '/api/embed', { body });
  assert.is(wrong.status, 400);
  assert.match(wrong.json().error, new RegExp(`^input\\[${String(at)}\\]`));
  assert.equal(listener.backend.embedRequests, []);

  listener.backend.embedScript = async function* (request) {
    if (request.input.length < LIMITS.embedInputs) throw new SvcError('CONTEXT_OVERFLOW', 'input[1] has 9 tokens');
    yield* measured(request);
  };
  const late = await ask(listener, '/api/embed', { body: { model: 'tiny', input: MANY } });
  assert.equal([late.status, late.complete], [200, false]);
});

test.run();

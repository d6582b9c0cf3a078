/** The limits `n_indent` and `t_max_predict_ms` of an infill's answer. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { withLineLimits } from '../../../src/daemon/http/llama-server/line-limits.ts';
import type { GenerateEvent, RouteEvent } from '../../../src/protocol/generate.ts';
import type { LineLimits } from '../../../src/protocol/llama-server/call.ts';
import { ask } from '../ask.ts';
import { FINISH, START, startScripted, text } from '../scripted.ts';

interface Answer {
  readonly texts: readonly string[];
  /** The last event. */
  readonly last: RouteEvent | GenerateEvent | undefined;
  /** True: the answer was ended before the engine ended it. */
  readonly isEnded: boolean;
}

/** The clock advances by a millisecond with every text. */
async function answerOf(pieces: readonly string[], limits: Partial<LineLimits>): Promise<Answer> {
  let now = 5;
  let isEnded = true;
  async function* script(): AsyncGenerator<GenerateEvent> {
    try {
      yield START;
      for (const piece of pieces) {
        now += 1;
        yield text(piece);
      }
      isEnded = false;
      yield FINISH;
    } finally {
      now += 100;
    }
  }
  const texts: string[] = [];
  let last: Answer['last'];
  for await (const event of withLineLimits(script(), { indent: 0, predictMs: -1, ...limits }, 2, () => now)) {
    if (event.type === 'text') texts.push(event.text);
    last = event;
  }
  return { texts, last, isEnded };
}

/** The text is split into its characters, too: where the engine divides it does not matter. */
async function endOf(answer: string, limits: Partial<LineLimits>): Promise<string | null> {
  const byCharacter = await answerOf([...answer], limits);
  const whole = await answerOf([answer], limits);
  assert.is(whole.texts.join(''), byCharacter.texts.join(''), JSON.stringify(answer));
  assert.is(whole.isEnded, byCharacter.isEnded);
  return whole.isEnded ? whole.texts.join('') : null;
}

test('an answer ends before a line that is indented less', async () => {
  const indent = 2;
  assert.is(await endOf('a\n  b\n\tc\n  d', { indent }), 'a\n  b\n\t');
  assert.is(await endOf('a\n  b\n }', { indent }), 'a\n  b\n ');
  assert.is(await endOf('a\n}', { indent }), 'a\n');
  assert.is(await endOf('🙂\n  🙂\n🙂', { indent }), '🙂\n  🙂\n');
  assert.is(await endOf('a\n\n  b', { indent }), 'a\n', 'an empty line has no indentation');
  assert.is(await endOf('a\n  b\n \t c', { indent }), null);
  assert.is(await endOf('a\n ', { indent }), null, 'the rest of the line is not known');
  assert.is(await endOf('a\nb', { indent: 0 }), null);
});

test('an answer ends at the next line break after the limit of time', async () => {
  const pieces = ['a', 'b', 'c\nd', 'e', 'f\ng\nh', 'i'];
  assert.equal((await answerOf(pieces, { predictMs: 1 })).texts, ['a', 'b', 'c\n']);
  assert.equal((await answerOf(pieces, { predictMs: 2 })).texts, ['a', 'b', 'c\nd', 'e', 'f\n']);
  assert.equal((await answerOf(pieces, { predictMs: 3 })).texts, ['a', 'b', 'c\nd', 'e', 'f\n']);
  for (const predictMs of [4, 0, -1]) assert.equal((await answerOf(pieces, { predictMs })).texts, pieces);
});

test('an ended answer has a finish with its times', async () => {
  const { last, isEnded } = await answerOf(['a', 'b\nc'], { indent: 1 });
  assert.ok(isEnded);
  const timings = { queue_ms: 3, ttft_ms: 4, total_ms: 5, tokens_per_second: null };
  assert.equal(last, { type: 'finish', reason: 'length', usage: null, timings });
  assert.equal((await answerOf(['a', '\n b'], { indent: 1 })).last, FINISH);
});

test('whole and streamed answers end, and the generation with them', async () => {
  let ended = 0;
  const listener = await startScripted({
    script: async function* () {
      try {
        yield START;
        yield text('a\n  b\nc');
        yield text('never sent');
        yield FINISH;
      } finally {
        ended += 1;
      }
    },
  });
  try {
    const body = { input_prefix: 'a', input_suffix: 'b', n_indent: 2, t_max_predict_ms: 250 };
    const whole = (await ask(listener, '/infill', { body })).json();
    assert.equal([whole.content, whole.stop_type, whole.tokens_predicted], ['a\n  b\n', 'limit', undefined]);
    const { text: stream } = await ask(listener, '/infill', { body: { ...body, stream: true } });
    const events = stream.split('\n\n').filter((event) => event.startsWith('data: '));
    const [first, last] = events.map((event) => JSON.parse(event.slice(6)));
    assert.equal([events.length, first.content, last.stop, last.stop_type], [2, 'a\n  b\n', true, 'limit']);
    assert.is(ended, 2);
  } finally {
    await listener.stop();
  }
});

test.run();

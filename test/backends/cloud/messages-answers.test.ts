/** How recorded answers of Anthropic's Messages API are read. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { messages as wire } from '../../../src/backends/cloud/wires/messages/messages.ts';
import { featuresOf } from './features.ts';
import {
  CACHED,
  CALL_IN_ONE_PIECE,
  CALLS_LEFT_OPEN,
  HELLO,
  HELLO_WITHOUT_ITS_END,
  OVERLOADED,
  REFUSED,
  SEARCHED,
  stop,
  THOUGHT_AND_CALLS,
} from './recorded-messages.ts';
import { answer, failsCutAnywhere, finishOf, joined, refusesWhatIsNotTheApi, thrown, usageOf } from './wire-support.ts';

const { feature } = featuresOf('messages', test);

/** Model of the recorded answers. */
const MODEL = 'claude-sonnet-5-5';

feature('text', 'arrives unchanged, despite pings in between', () => {
  const events = answer(wire, HELLO);
  assert.equal(events[0], { type: 'started', model: MODEL });
  assert.is(joined(events).text, 'Hello! 👋 Grüße');
});

test('an event without data yields nothing', () => {
  assert.equal(wire.reader({}).read({ name: 'ping', data: '' }), []);
});

test('unknown events and blocks, and server-side tools, are ignored', () => {
  const events = answer(wire, SEARCHED);
  assert.equal(joined(events), { text: 'Found.', reasoning: '', calls: [] });
  assert.is(finishOf(events), 'stop');
});

feature('tools', 'are called with arguments that are never an empty string', () => {
  const events = answer(wire, THOUGHT_AND_CALLS);
  assert.equal(joined(events).calls, [
    { id: 'toolu_01T1x1fJ34qAmk2tNTrN7Up6', name: 'get_weather', arguments: '{"city": "Köln"}' },
    { id: 'toolu_02', name: 'get_time', arguments: '{}' },
  ]);
  assert.is(finishOf(events), 'tool_calls');
});

test('a call that arrives in one piece, from a server that names no events, is complete', () => {
  assert.equal(joined(answer(wire, CALL_IN_ONE_PIECE)).calls, [
    { id: 'call_0', name: 'get_weather', arguments: '{"city":"Bonn"}' },
  ]);
});

test('calls with wrong or unclosed block indices stay separate', () => {
  assert.equal(joined(answer(wire, CALLS_LEFT_OPEN)).calls, [
    { id: 'a', name: 'get_weather', arguments: '{"city":"a"}' },
    { id: 'b', name: 'get_weather', arguments: '{"city":"b"}' },
    { id: 'c', name: 'get_weather', arguments: '{}' },
  ]);
});

feature('reasoning output', 'separate from the text, without its signature', () => {
  const { text: words, reasoning } = joined(answer(wire, THOUGHT_AND_CALLS));
  assert.is(reasoning, 'The user wants the weather.');
  assert.is(words, "Let's look.");
});

feature('usage', 'counts all input and all output, including reasoning', () => {
  assert.equal(usageOf(answer(wire, HELLO)), { input_tokens: 25, output_tokens: 15, cached_tokens: 0 });
  assert.equal(usageOf(answer(wire, THOUGHT_AND_CALLS)), { input_tokens: 472, output_tokens: 89, cached_tokens: 0 });
});

feature('cached tokens', 'count as input, whether read or written', () => {
  assert.equal(usageOf(answer(wire, CACHED)), { input_tokens: 2122, output_tokens: 5, cached_tokens: 2000 });
});

feature('finish reasons', 'are mapped to ours', () => {
  const finish = (reason: string): string | undefined =>
    finishOf(answer(wire, [...HELLO_WITHOUT_ITS_END, ...stop(reason)]));
  assert.is(finish('end_turn'), 'stop');
  assert.is(finish('stop_sequence'), 'stop');
  assert.is(finish('max_tokens'), 'length');
  assert.is(finish('model_context_window_exceeded'), 'length');
  assert.is(finish('pause_turn'), 'length');
  assert.is(finishOf(answer(wire, REFUSED)), 'content_filter');
});

test('the stop sequence that ended an answer is passed on', () => {
  const last = (reason: string, sequence: string | null): unknown =>
    answer(wire, [...HELLO_WITHOUT_ITS_END, ...stop(reason, undefined, sequence)]).at(-1);
  assert.equal(last('stop_sequence', 'END'), { type: 'finish', reason: 'stop', stop_string: 'END' });
  assert.equal(last('end_turn', null), { type: 'finish', reason: 'stop' });
});

test('error bodies in the format of other APIs are understood', () => {
  assert.equal(wire.error({ object: 'error', message: 'no', code: 400 }), { message: 'no', code: '400' });
});

feature('errors in the stream', "are reported with the provider's message", () => {
  const error = thrown(() => answer(wire, [...HELLO_WITHOUT_ITS_END, OVERLOADED]));
  assert.is(error.code, 'BUSY');
  assert.is(error.retryable, true);
  assert.is(error.quote, 'Overloaded');
  const busy = { type: 'error', error: { type: 'rate_limit_error', message: 'Slow down' } };
  assert.is(thrown(() => answer(wire, [['error', busy]])).code, 'BUSY');
});

feature('interrupted answers', 'are failures, wherever they are cut', () => {
  failsCutAnywhere(wire, HELLO);
  for (const reason of [null, 'brand_new_reason', 'toString']) {
    const events = [...HELLO_WITHOUT_ITS_END, ...stop(reason)];
    assert.is(thrown(() => answer(wire, events)).code, 'PROVIDER_FAILED', String(reason));
  }
});

test('data that is not of this API is a failure, and its text is not repeated', () => {
  refusesWhatIsNotTheApi(wire, ['{"secret":1}', '{"type":"message_start","message":"secret"}']);
  const nameless = { type: 'content_block_start', index: 0, content_block: { type: 'tool_use', id: 'a', input: {} } };
  assert.is(thrown(() => answer(wire, [[undefined, nameless]])).code, 'PROVIDER_FAILED');
});

test('an error body gives the message and the type', () => {
  const said = { type: 'error', error: { type: 'not_found_error', message: 'model: x' }, request_id: 'req_1' };
  assert.equal(wire.error(said), { message: 'model: x', code: 'not_found_error' });
  assert.equal(wire.error({ error: {} }), { message: '', code: null });
  for (const other of [undefined, null, 'Bad Gateway', 'x', { type: 'message' }]) assert.is(wire.error(other), null);
});

test.run();

/** Our answers become Anthropic's messages, whole and as streams with the same content. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { toMessage, type AnswerOptions } from '../../../src/protocol/anthropic/message.ts';
import { MessageStream, type StreamEvent } from '../../../src/protocol/anthropic/message-stream.ts';
import { FINISH_REASONS, toStopReason } from '../../../src/protocol/anthropic/stop-reason.ts';
import { fromCounts, toCounts } from '../../../src/protocol/anthropic/usage.ts';
import { Collector } from '../../../src/protocol/collect.ts';
import type { FinishEvent, GenerateEvent, RouteEvent, StartEvent } from '../../../src/protocol/generate.ts';
import { FINISH, START, text } from '../scripted.ts';

const OPTIONS: AnswerOptions = { id: 'abc', showsThinking: true, maxTokens: 100 };
const ROUTE: RouteEvent = { type: 'route', trace_id: 'abc', route: { requested: 'x', chosen: 'local', attempts: [] } };

const think = (words: string): GenerateEvent => ({ type: 'reasoning', text: words });
const call = (index: number, json: string, begin: object = {}): GenerateEvent => ({
  type: 'tool_call',
  index,
  ...begin,
  arguments: json,
});
const CALLS = [
  call(0, '', { id: 'a', name: 'look' }),
  call(0, '{"at"'),
  call(0, ':1}'),
  call(1, '{}', { id: 'b', name: 'see' }),
];

function streamed(events: readonly GenerateEvent[], options = OPTIONS): StreamEvent[] {
  const stream = new MessageStream(options);
  return [ROUTE, START, ...events].flatMap((event) => stream.read(event));
}

function whole(events: readonly GenerateEvent[], options = OPTIONS): Record<string, unknown> {
  const collector = new Collector();
  for (const event of [ROUTE, START, ...events]) collector.add(event);
  return toMessage(collector, options) as Record<string, unknown>;
}

/** The message that a client makes of a stream; also checks the order of its events. */
function assembled(events: readonly StreamEvent[]): Record<string, unknown> {
  const [first, ...rest] = events;
  assert.is(first?.type, 'message_start');
  assert.is(rest.at(-1)?.type, 'message_stop');
  assert.is(rest.at(-2)?.type, 'message_delta');
  const content: Record<string, string>[] = [];
  let open: number | null = null;
  for (const event of rest.slice(0, -2)) {
    if (event.type === 'ping') continue;
    if (event.type === 'content_block_start') {
      assert.is(open, null);
      open = content.length;
      content.push({ ...(event['content_block'] as Record<string, string>) });
    }
    assert.is(event['index'], open);
    if (event.type === 'content_block_stop') open = null;
    if (event.type !== 'content_block_delta') continue;
    const block = content[open ?? -1]!;
    const { type: _, ...delta } = event['delta'] as Record<string, string>;
    const [[name, value]] = Object.entries(delta) as [[string, string]];
    block[name] = (block[name] ?? '') + value;
  }
  assert.is(open, null);
  const blocks = content.map(({ partial_json: json, ...block }) =>
    json === undefined ? block : { ...block, input: JSON.parse(json) as unknown },
  );
  const { delta, usage } = rest.at(-2) as { delta?: object; usage?: unknown };
  return { ...(first?.['message'] as object), ...delta, content: blocks, usage };
}

test('a text', () => {
  const events = streamed([text('hel'), text('lo'), FINISH]);
  assert.equal(
    events.map(({ type }) => type),
    [
      'message_start',
      'ping',
      'content_block_start',
      'content_block_delta',
      'content_block_delta',
      'content_block_stop',
      'message_delta',
      'message_stop',
    ],
  );
  const message = whole([text('hello'), FINISH]);
  assert.equal(message, {
    id: 'msg_abc',
    type: 'message',
    role: 'assistant',
    model: 'tiny',
    content: [{ type: 'text', text: 'hello' }],
    stop_reason: 'end_turn',
    stop_sequence: null,
    stop_details: null,
    container: null,
    usage: {
      input_tokens: 4,
      output_tokens: 2,
      cache_read_input_tokens: 3,
      cache_creation_input_tokens: 0,
      cache_creation: null,
      server_tool_use: null,
      service_tier: 'standard',
    },
  });
});

test('an answer that a stop sequence ended names it', () => {
  const stopped: FinishEvent = { ...FINISH, stop_string: 'END' };
  const { stop_reason, stop_sequence } = whole([text('a'), stopped]);
  assert.equal([stop_reason, stop_sequence], ['stop_sequence', 'END']);
  assert.equal(assembled(streamed([text('a'), stopped])), whole([text('a'), stopped]));
});

test('a stream begins with the size of the prompt, if it is known', () => {
  const usageOf = (start: StartEvent): unknown => {
    const [event] = new MessageStream(OPTIONS).read(start);
    return (event?.['message'] as { usage: { input_tokens: number } }).usage.input_tokens;
  };
  assert.is(usageOf(START), 0);
  assert.is(usageOf({ ...START, input_tokens: 9 }), 9);
});

test('streams have the content of whole answers', () => {
  const called: FinishEvent = { ...FINISH, reason: 'tool_calls' };
  const answers: readonly (readonly GenerateEvent[])[] = [
    [text('hello'), FINISH],
    [FINISH],
    [think('Hm'), think('!'), text('yes'), FINISH],
    [think('Hm'), FINISH],
    [think('Hm'), text('Looking.'), ...CALLS, called],
    [...CALLS, called],
    [text('x'), { ...FINISH, usage: null }],
  ];
  for (const answer of answers) {
    assert.equal(assembled(streamed(answer)), whole(answer));
    const hidden = { ...OPTIONS, showsThinking: false };
    assert.equal(assembled(streamed(answer, hidden)), whole(answer, hidden));
  }
});

test('the blocks of an answer with all there is', () => {
  assert.equal(whole([think('Hm'), text('Looking.'), ...CALLS, FINISH])['content'], [
    { type: 'thinking', thinking: 'Hm', signature: 'svc' },
    { type: 'text', text: 'Looking.' },
    { type: 'tool_use', id: 'a', name: 'look', input: { at: 1 } },
    { type: 'tool_use', id: 'b', name: 'see', input: {} },
  ]);
  assert.equal(whole([FINISH])['content'], [{ type: 'text', text: '' }]);
  const cut = whole([call(0, '{"at', { id: 'a', name: 'look' }), { ...FINISH, reason: 'length' }]);
  assert.equal(cut['content'], [{ type: 'tool_use', id: 'a', name: 'look', input: {} }]);
  const hidden = whole([think('H'), think('m'), text('yes'), FINISH], { ...OPTIONS, showsThinking: false });
  assert.equal((hidden['content'] as unknown[])[0], { type: 'thinking', thinking: '', signature: 'svc:SG0=' });
});

test('each block of hidden thoughts carries its own in one signature', () => {
  // Anthropic's client keeps only the last signature of a block.
  const events = streamed([think('a'), think('b'), text('x'), think('c'), text('y'), FINISH], {
    ...OPTIONS,
    showsThinking: false,
  });
  const deltas = events.map(({ delta }) => delta as { type?: string; signature?: string } | undefined);
  assert.equal(
    deltas.filter((delta) => delta?.type === 'signature_delta').map((delta) => delta?.signature),
    ['svc:YWI=', 'svc:Yw=='],
  );
});

test('a late part of an earlier call is a delta of its block', () => {
  const events = streamed([...CALLS, call(0, ' '), FINISH]);
  const deltas = events.filter(({ type }) => type === 'content_block_delta').map(({ index }) => index);
  assert.equal(deltas, [0, 0, 1, 0]);
});

test('stop reasons', () => {
  const finish = (
    reason: FinishEvent['reason'],
    output_tokens: number,
    more: Partial<FinishEvent> = {},
  ): FinishEvent => ({
    ...FINISH,
    reason,
    usage: { input_tokens: 7, output_tokens, cached_tokens: 0 },
    ...more,
  });
  assert.is(toStopReason(finish('stop', 1), 'local', 9), 'end_turn');
  assert.is(toStopReason(finish('tool_calls', 1), 'local', 9), 'tool_use');
  assert.is(toStopReason(finish('content_filter', 1), 'x', 9), 'refusal');
  assert.is(toStopReason(finish('length', 9), 'local', 9), 'max_tokens');
  assert.is(toStopReason(finish('length', 8), 'local', 9), 'model_context_window_exceeded');
  assert.is(toStopReason(finish('length', 8), 'x', 9), 'max_tokens');
  const repetition = { period_tokens: 1, repeated_tokens: 8, stopped: true };
  assert.is(toStopReason(finish('length', 8, { repetition }), 'local', 9), 'max_tokens');
  assert.throws(() => toStopReason(finish('cancelled', 1), 'local', 9), /cancelled/);
  assert.is(FINISH_REASONS.get('pause_turn'), 'length');
});

test('counts, there and back', () => {
  const usage = { input_tokens: 9, output_tokens: 2, cached_tokens: 5 };
  assert.is(toCounts(usage).input_tokens, 4);
  assert.equal(fromCounts(toCounts(usage)), usage);
  assert.is(fromCounts({ output_tokens: 2 }), null);
  assert.equal(whole([text('x'), { ...FINISH, usage: { ...usage, truncated_tokens: 3 } }])['usage'], {
    ...(whole([text('x'), { ...FINISH, usage }])['usage'] as object),
    truncated_tokens: 3,
  });
});

test.run();

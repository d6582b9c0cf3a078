/** The events of a response, over random splits of answers. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../../src/protocol/errors.ts';
import type { FinishReason, GenerateEvent } from '../../../src/protocol/generate.ts';
import { ResponseBuilder } from '../../../src/protocol/openai/responses/response-builder.ts';
import { parseResponses } from '../../../src/protocol/openai/responses/request.ts';
import { Random } from '../../fuzz/random.ts';
import { FINISH, START } from '../scripted.ts';
import { checkEvents } from './event-order.ts';

const ID = `resp_${'0'.repeat(32)}`;
const answer = (fields: object = {}): ResponseBuilder =>
  new ResponseBuilder({ id: ID, call: parseResponses({ input: 'x', ...fields }), store: true });

function run(events: readonly GenerateEvent[], reason: FinishReason = 'stop', fields: object = {}): object[] {
  const made = answer(fields);
  const all = [START, ...events, { ...FINISH, reason }].flatMap((event) => made.take(event));
  return structuredClone([...all, ...made.last()]);
}

const text = (value: string): GenerateEvent => ({ type: 'text', text: value });
const thought = (value: string): GenerateEvent => ({ type: 'reasoning', text: value });
const call = (index: number, name: string, pieces: readonly string[]): GenerateEvent[] =>
  pieces.map((piece, at) => ({
    type: 'tool_call',
    index,
    ...(at === 0 ? { id: `call_${String(index)}`, name } : {}),
    arguments: piece,
  }));

test('a text: every event in its order', () => {
  const { types, response } = checkEvents(run([text('hello '), text('world')]));
  assert.equal(types, [
    'response.created',
    'response.in_progress',
    'response.output_item.added',
    'response.content_part.added',
    'response.output_text.delta',
    'response.output_text.delta',
    'response.output_text.done',
    'response.content_part.done',
    'response.output_item.done',
    'response.completed',
  ]);
  assert.is(response.output[0].content[0].text, 'hello world');
  assert.is(response.output[0].status, 'completed');
  assert.equal(response.usage, {
    input_tokens: 7,
    input_tokens_details: { cached_tokens: 3 },
    output_tokens: 2,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: 9,
  });
  assert.equal([response.error, response.incomplete_details, response.instructions], [null, null, null]);
});

test('reasoning as text, and as a summary if one was asked for', () => {
  const events = [thought('let '), thought('me see'), text('42')];
  const { types, response } = checkEvents(run(events));
  assert.equal(types.slice(2, 10), [
    'response.output_item.added',
    'response.content_part.added',
    'response.reasoning_text.delta',
    'response.reasoning_text.delta',
    'response.reasoning_text.done',
    'response.content_part.done',
    'response.output_item.done',
    'response.output_item.added',
  ]);
  assert.equal(response.output[0].content, [{ type: 'reasoning_text', text: 'let me see' }]);
  assert.is(response.usage.output_tokens_details, undefined, 'the number of reasoning tokens is not known');

  const summary = checkEvents(run(events, 'stop', { reasoning: { summary: 'auto' } }));
  assert.equal(summary.types.slice(3, 8), [
    'response.reasoning_summary_part.added',
    'response.reasoning_summary_text.delta',
    'response.reasoning_summary_text.delta',
    'response.reasoning_summary_text.done',
    'response.reasoning_summary_part.done',
  ]);
  assert.equal(summary.response.output[0].summary, [{ type: 'summary_text', text: 'let me see' }]);
  assert.is(summary.response.output[0].content, undefined);
});

test('calls one after the other, and mixed', () => {
  const first = call(0, 'a', ['', '{"x":', '1}']);
  const second = call(1, 'b', ['{}']);
  const ordered = checkEvents(run([text('so'), ...first, ...second], 'tool_calls'));
  assert.equal(
    ordered.response.output.map(({ type, name, arguments: value }: any) => [type, name, value]),
    [
      ['message', undefined, undefined],
      ['function_call', 'a', '{"x":1}'],
      ['function_call', 'b', '{}'],
    ],
  );
  assert.is(ordered.response.status, 'completed');
  const [, { id, call_id, status }] = ordered.response.output;
  assert.equal([id, call_id, status], [`fc_${'0'.repeat(32)}_1`, 'call_0', 'completed']);
  assert.ok(ordered.types.indexOf('response.function_call_arguments.done') < ordered.types.length - 6);

  const mixed = checkEvents(run([first[0]!, first[1]!, second[0]!, first[2]!], 'tool_calls'));
  assert.equal(
    mixed.response.output.map(({ arguments: value }: any) => value),
    ['{"x":1}', '{}'],
  );
});

test('a function of a namespace is named as the client named it', () => {
  const tools = [{ type: 'namespace', name: 'mcp', tools: [{ type: 'function', name: 'read' }] }];
  const { response } = checkEvents(run(call(0, 'mcp__read', ['{}']), 'tool_calls', { tools }));
  assert.equal([response.output[0].name, response.output[0].namespace], ['read', 'mcp']);
  assert.equal(response.ignored_tools, undefined);
});

test('an answer that was cut off is incomplete, and so is its last item', () => {
  const { types, response } = checkEvents(run([text('a'), ...call(0, 'f', ['{"x'])], 'length'));
  assert.is(types.at(-1), 'response.incomplete');
  assert.equal(response.incomplete_details, { reason: 'max_output_tokens' });
  assert.equal(
    response.output.map(({ status }: any) => status),
    ['completed', 'incomplete'],
  );
  assert.is(response.completed_at, null);
  assert.equal(checkEvents(run([text('a')], 'content_filter')).response.incomplete_details, {
    reason: 'content_filter',
  });
});

test('an answer without anything is an empty message', () => {
  const { response } = checkEvents(run([]));
  assert.is(response.output[0].content[0].text, '');
});

test('an error follows response.failed, and that follows response.created', () => {
  const error = new SvcError('CONTEXT_OVERFLOW', 'too long', { param: 'input' });
  const [created, end, alone] = answer().fail(error, 'id');
  assert.equal([created?.type, (created?.['response'] as any).status], ['response.created', 'in_progress']);
  assert.equal([end?.type, (end?.['response'] as any).error.code], ['response.failed', 'context_length_exceeded']);
  assert.equal([alone?.type, alone?.['code'], alone?.['param']], ['error', 'context_length_exceeded', 'input']);
  const begun = answer();
  const before = [...begun.take(START), ...begun.take(text('a'))];
  const [failed, told] = begun.fail(new SvcError('ENGINE_CRASHED', 'gone'), 'id');
  assert.equal([failed?.type, failed?.sequence_number], ['response.failed', before.length]);
  const { status, error: detail } = failed?.['response'] as any;
  assert.equal([status, detail], ['failed', { code: 'server_error', message: 'gone' }]);
  assert.equal([told?.type, (told?.['error'] as any).code], ['error', 'engine_crashed']);
});

test('a cancelled answer is an error', () => {
  assert.throws(() => run([text('a')], 'cancelled'), /cancelled/);
});

test('random answers in random pieces keep the order and add up', () => {
  const random = new Random(7, 0);
  for (let round = 0; round < 300; round++) {
    const events: GenerateEvent[] = [];
    let calls = 0;
    for (let piece = random.below(12); piece > 0; piece--) {
      const kind = random.below(4);
      if (kind === 0) events.push(thought('t'));
      else if (kind === 3) events.push(...call(calls++, 'f', ['{', '"a"', ':1}'].slice(0, 1 + random.below(3))));
      else events.push(text('x'));
    }
    const fields = random.below(2) === 0 ? {} : { reasoning: { summary: 'auto' } };
    checkEvents(run(events, random.of(['stop', 'length', 'tool_calls'] as const), fields));
  }
});

test.run();

/** Answers of OpenAI's Responses API, event by event. */
import type { Recorded } from './wire-support.ts';

export const MODEL = 'gpt-6.1-terra';
const ID = 'resp_68af4030';

/** An event; its data repeats its name. */
export function event(type: string, more: object = {}): Recorded {
  return [type, { type, ...more }];
}

const response = (more: object): object => ({ response: { id: ID, object: 'response', model: MODEL, ...more } });

export const CREATED = event('response.created', response({ status: 'in_progress', output: [], usage: null }));

export const text = (delta: string): Recorded =>
  event('response.output_text.delta', { item_id: 'msg_1', output_index: 1, content_index: 0, delta, logprobs: [] });

/** A piece of a reasoning summary: `part` of the reasoning item at index `output`. */
export const summary = (delta: string, part = 0, output = 0): Recorded =>
  event('response.reasoning_summary_text.delta', { output_index: output, summary_index: part, delta });

export function completed(usage: object | null = { input_tokens: 5, output_tokens: 2 }): Recorded {
  return event('response.completed', response({ status: 'completed', usage }));
}

export const incomplete = (reason: string): Recorded =>
  event('response.incomplete', response({ status: 'incomplete', incomplete_details: { reason }, usage: null }));

export const HELLO: readonly Recorded[] = [
  CREATED,
  event('response.in_progress', response({ status: 'in_progress' })),
  event('response.output_item.added', { output_index: 1, item: { id: 'msg_1', type: 'message', content: [] } }),
  event('response.content_part.added', { output_index: 1, part: { type: 'output_text', text: '', annotations: [] } }),
  text('Hello'),
  text('! 👋 Grüße'),
  event('response.output_text.done', { output_index: 1, text: 'Hello! 👋 Grüße' }),
  event('response.content_part.done', { output_index: 1, part: { type: 'output_text', text: 'Hello! 👋 Grüße' } }),
  event('response.output_item.done', {
    output_index: 1,
    item: { id: 'msg_1', type: 'message', content: [{ type: 'output_text', text: 'Hello! 👋 Grüße' }] },
  }),
  completed({
    input_tokens: 25,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: 15,
    output_tokens_details: { reasoning_tokens: 8 },
    total_tokens: 40,
  }),
];

export const CACHED: readonly Recorded[] = [
  CREATED,
  text('Hello'),
  completed({ input_tokens: 2132, input_tokens_details: { cached_tokens: 2000 }, output_tokens: 12 }),
];

const call = (id: string, name: string, args: string): object => ({
  item: { id: `fc_${id}`, type: 'function_call', call_id: id, name, arguments: args },
});

/** Reasoning and two calls: the first arrives in pieces, the second at once. */
export const THOUGHT_AND_CALLS: readonly Recorded[] = [
  CREATED,
  event('response.output_item.added', { output_index: 0, item: { id: 'rs_1', type: 'reasoning', summary: [] } }),
  summary('**Weather**'),
  summary('The user wants', 1),
  summary(' the weather.', 1),
  text("Let's look."),
  event('response.output_item.added', { output_index: 2, ...call('call_a', 'get_weather', '') }),
  event('response.function_call_arguments.delta', { output_index: 2, delta: '{"city"' }),
  event('response.function_call_arguments.delta', { output_index: 2, delta: ':"Köln"}' }),
  event('response.function_call_arguments.done', { output_index: 2, arguments: '{"city":"Köln"}' }),
  event('response.output_item.done', { output_index: 2, ...call('call_a', 'get_weather', '{"city":"Köln"}') }),
  event('response.output_item.done', { output_index: 3, ...call('call_b', 'get_time', '{}') }),
  completed(),
];

export const REFUSED: readonly Recorded[] = [
  CREATED,
  event('response.refusal.delta', { output_index: 0, delta: 'No.' }),
  completed(),
];

export const FAILED = event(
  'response.failed',
  response({ status: 'failed', error: { code: 'rate_limit_exceeded', message: 'Slow down' } }),
);
export const TOO_LONG = event('error', { code: 'context_length_exceeded', message: 'Too long', param: null });

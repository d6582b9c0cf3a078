/** Chat Completions answers, event by event, as OpenAI and compatible servers send them. */
import { chunk } from './cloud-support.ts';
import type { Recorded } from './wire-support.ts';

export const MODEL = 'small-2026-07';

/** A chunk with a piece of the answer. */
export function piece(delta: object, finish: string | null = null, more: object = {}): Recorded {
  return [undefined, chunk(delta, finish, more)];
}

/** A chunk with a piece of a tool call. */
export const callPiece = (call: object): Recorded => piece({ tool_calls: [call] });

/** The last chunk, which has usage and no choice. */
const figures = (usage: object): Recorded => piece({}, null, { choices: [], usage });

export const HELLO: readonly Recorded[] = [
  piece({ role: 'assistant', content: '', refusal: null }),
  piece({ content: 'Hello' }),
  piece({ content: '! 👋 Grüße' }),
  piece({}, 'stop'),
  figures({ prompt_tokens: 5, completion_tokens: 2, total_tokens: 7, prompt_tokens_details: { cached_tokens: 0 } }),
];

export const CACHED: readonly Recorded[] = [
  piece({ role: 'assistant', content: 'Hello' }),
  piece({}, 'stop'),
  figures({
    prompt_tokens: 2132,
    completion_tokens: 12,
    total_tokens: 2144,
    prompt_tokens_details: { cached_tokens: 2000 },
    completion_tokens_details: { reasoning_tokens: 4 },
  }),
];

export const THOUGHT_AND_CALLS: readonly Recorded[] = [
  piece({ role: 'assistant', content: null, reasoning_content: 'The user wants' }),
  piece({ content: null, reasoning_content: ' the weather.' }),
  piece({ content: "Let's look." }),
  callPiece({ index: 0, id: 'call_a', type: 'function', function: { name: 'get_weather', arguments: '' } }),
  callPiece({ index: 0, function: { arguments: '{"city"' } }),
  callPiece({ index: 0, function: { arguments: ':"Köln"}' } }),
  callPiece({ index: 1, id: 'call_b', type: 'function', function: { name: 'get_time', arguments: '{}' } }),
  piece({}, 'tool_calls'),
];

export const MODELS_PAGE = {
  object: 'list',
  data: [
    { id: 'gpt-6.1-terra', object: 'model', created: 1_760_000_000, owned_by: 'openai' },
    { id: 'openai/gpt-oss-120b', object: 'model', created: 1_760_000_000, owned_by: 'openai' },
  ],
};

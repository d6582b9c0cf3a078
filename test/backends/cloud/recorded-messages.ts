/** Answers of the Messages API, event by event. */
import type { Recorded } from './wire-support.ts';

const MODEL = 'claude-sonnet-5-5';

function start(usage: object = {}): Recorded {
  return [
    'message_start',
    {
      type: 'message_start',
      message: {
        id: 'msg_01XFDUDYJgAACzvnptvVoYEL',
        type: 'message',
        role: 'assistant',
        model: MODEL,
        content: [],
        stop_reason: null,
        stop_sequence: null,
        usage: {
          input_tokens: 25,
          cache_creation_input_tokens: 0,
          cache_read_input_tokens: 0,
          output_tokens: 1,
          service_tier: 'standard',
          ...usage,
        },
      },
    },
  ];
}

function open(index: number, block: object): Recorded {
  return ['content_block_start', { type: 'content_block_start', index, content_block: block }];
}

function fill(index: number, delta: object): Recorded {
  return ['content_block_delta', { type: 'content_block_delta', index, delta }];
}

function close(index: number): Recorded {
  return ['content_block_stop', { type: 'content_block_stop', index }];
}

export function stop(
  reason: string | null,
  usage: object = { output_tokens: 15 },
  stop_sequence: string | null = null,
): Recorded[] {
  return [
    ['message_delta', { type: 'message_delta', delta: { stop_reason: reason, stop_sequence }, usage }],
    ['message_stop', { type: 'message_stop' }],
  ];
}

const PING: Recorded = ['ping', { type: 'ping' }];

export const HELLO: readonly Recorded[] = [
  start(),
  open(0, { type: 'text', text: '' }),
  PING,
  fill(0, { type: 'text_delta', text: 'Hello' }),
  fill(0, { type: 'text_delta', text: '! 👋 Grüße' }),
  close(0),
  ...stop('end_turn'),
];

/** The answer without its final events. */
export const HELLO_WITHOUT_ITS_END: readonly Recorded[] = HELLO.slice(0, -2);

/** Reasoning with its signature, then text and two calls, the second without arguments. */
export const THOUGHT_AND_CALLS: readonly Recorded[] = [
  start({ input_tokens: 472 }),
  open(0, { type: 'thinking', thinking: '', signature: '' }),
  fill(0, { type: 'thinking_delta', thinking: 'The user wants ' }),
  fill(0, { type: 'thinking_delta', thinking: 'the weather.' }),
  fill(0, { type: 'signature_delta', signature: 'EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pk' }),
  close(0),
  open(1, { type: 'redacted_thinking', data: 'EmwKAhgBEgy3va3pzix/LafPsn4' }),
  close(1),
  open(2, { type: 'text', text: '' }),
  fill(2, { type: 'text_delta', text: "Let's look." }),
  close(2),
  open(3, { type: 'tool_use', id: 'toolu_01T1x1fJ34qAmk2tNTrN7Up6', name: 'get_weather', input: {} }),
  fill(3, { type: 'input_json_delta', partial_json: '' }),
  fill(3, { type: 'input_json_delta', partial_json: '{"city":' }),
  fill(3, { type: 'input_json_delta', partial_json: ' "Köln"}' }),
  close(3),
  open(4, { type: 'tool_use', id: 'toolu_02', name: 'get_time', input: {} }),
  fill(4, { type: 'input_json_delta', partial_json: '' }),
  close(4),
  ...stop('tool_use', { output_tokens: 89, output_tokens_details: { thinking_tokens: 40 } }),
];

/** Calls of a server that gives all blocks the same index and closes none. */
export const CALLS_LEFT_OPEN: readonly Recorded[] = [
  start(),
  ...['a', 'b', 'c'].flatMap((id) => [
    open(0, { type: 'tool_use', id, name: 'get_weather', input: {} }),
    ...(id === 'c' ? [] : [fill(0, { type: 'input_json_delta', partial_json: `{"city":"${id}"}` })]),
  ]),
  ...stop('tool_use'),
];

/** A call of a server that does not stream arguments and names no events. */
export const CALL_IN_ONE_PIECE: readonly Recorded[] = [
  start(),
  open(0, { type: 'tool_use', id: 'call_0', name: 'get_weather', input: { city: 'Bonn' } }),
  close(0),
  ...stop('tool_use'),
].map(([, data]) => [undefined, data]);

export const CACHED: readonly Recorded[] = [
  start({ input_tokens: 21, cache_creation_input_tokens: 100, cache_read_input_tokens: 2000 }),
  open(0, { type: 'text', text: '' }),
  fill(0, { type: 'text_delta', text: 'Yes.' }),
  close(0),
  ...stop('end_turn', { input_tokens: 22, output_tokens: 5, cache_read_input_tokens: null }),
];

/** An unrequested server-side search around text with a citation. */
export const SEARCHED: readonly Recorded[] = [
  start(),
  open(0, { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: {} }),
  fill(0, { type: 'input_json_delta', partial_json: '{"query":"x"}' }),
  close(0),
  open(1, { type: 'web_search_tool_result', tool_use_id: 'srvtoolu_1', content: [{ type: 'web_search_result' }] }),
  close(1),
  open(2, { type: 'text', text: '', citations: [] }),
  fill(2, { type: 'citations_delta', citation: { type: 'web_search_result_location', cited_text: 'x' } }),
  fill(2, { type: 'text_delta', text: 'Found.' }),
  close(2),
  ['brand_new_event', { type: 'brand_new_event', index: 2 }],
  ...stop('end_turn'),
];

export const REFUSED: readonly Recorded[] = [
  start(),
  open(0, { type: 'text', text: '' }),
  fill(0, { type: 'text_delta', text: 'I' }),
  close(0),
  [
    'message_delta',
    {
      type: 'message_delta',
      delta: { stop_reason: 'refusal', stop_details: { type: 'refusal', category: 'bio', explanation: null } },
      usage: { output_tokens: 1 },
    },
  ],
  ['message_stop', { type: 'message_stop' }],
];

export const OVERLOADED: Recorded = [
  'error',
  { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' }, request_id: 'req_011' },
];

export const MODELS_PAGE = {
  data: [
    { type: 'model', id: 'claude-sonnet-5-5', display_name: 'Claude Sonnet 5.5', created_at: '2026-09-28T00:00:00Z' },
    { type: 'model', id: 'claude-haiku-5-5', display_name: 'Claude Haiku 5.5', created_at: '2026-09-28T00:00:00Z' },
  ],
  has_more: true,
  first_id: 'claude-sonnet-5-5',
  last_id: 'claude-haiku-5-5',
};

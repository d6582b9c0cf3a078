/** llama-server's routes. There is no SDK: the fields are those that its source reads. */
import { FINISH, START, text, type Script } from '../http/scripted.ts';
import { honoured, ignored, needed, refused, type Api, type Field } from './declare.ts';

type Body = Readonly<Record<string, unknown>>;

const MODEL: Field = honoured('model', 'model', 'small');
const HOW = 'it tunes llama-server and does not change the answer';
const CHATS = 'it belongs to chats; llama-server sets it itself';
const NOTHING_CUT = 'nothing is cut off a prompt';
const DRAFTS = 'svc drafts from the prompt by itself';
const THINKS = 'raw prompts are answered without reasoning';

/** Names with a dot. */
const dotted = (name: string, why: string, value: unknown): Field => ({
  ...ignored(name, why, value),
  sent: { [name]: value },
});

const SAMPLERS: readonly (readonly [name: string, value: unknown])[] = [
  ['temperature', 0.5],
  ['dynatemp_range', 0.5],
  ['dynatemp_exponent', 2],
  ['top_k', 5],
  ['top_p', 0.5],
  ['min_p', 0.5],
  ['typical_p', 0.5],
  ['xtc_probability', 0.5],
  ['xtc_threshold', 0.2],
  ['mirostat', 2],
  ['mirostat_tau', 4],
  ['mirostat_eta', 0.2],
  ['repeat_last_n', 32],
  ['repeat_penalty', 1.1],
  ['presence_penalty', 0.5],
  ['frequency_penalty', 0.5],
  ['dry_multiplier', 0.5],
  ['dry_base', 2],
  ['dry_allowed_length', 3],
  ['dry_penalty_last_n', 32],
  ['dry_sequence_breakers', ['.']],
  ['seed', 7],
  ['logit_bias', { '5': 1 }],
];

const LIMIT: Body = { n_predict: 9 };
const GAP = { input_prefix: 'a', input_suffix: 'b' };

const HONOURED: readonly Field[] = [
  honoured('prompt', 'raw.text', 'so'),
  honoured('n_predict', 'max_tokens', 5, LIMIT),
  honoured('max_completion_tokens', 'max_tokens', 5),
  honoured('max_tokens', 'max_tokens', 5),
  honoured('stream', 'answer', true),
  honoured('response_fields', 'answer', ['content']),
  honoured('n_indent', 'answer', 2),
  honoured('t_max_predict_ms', 'answer', 1),
  honoured('stop', 'stop', ['END']),
  honoured('json_schema', 'format', { type: 'object' }),
  honoured('grammar', 'format', 'root ::= "a"'),
  honoured('lora', 'lora', [{ id: 0, scale: 0.5 }]),
  ...SAMPLERS.map(([name, value]) => honoured(name, `sampling.${name}`, value)),
];

const REFUSED: readonly Field[] = [
  refused('n_cmpl', 2),
  refused('n', 2),
  refused('n_probs', 3),
  refused('logprobs', 3),
  refused('return_tokens', true),
  refused('top_n_sigma', 1),
  refused('adaptive_target', 0.5),
  refused('min_keep', 2),
  refused('ignore_eos', true),
];

const IGNORED: readonly Field[] = [
  ignored('adaptive_decay', 'it needs adaptive_target', 0.5),
  ignored('post_sampling_probs', 'it needs n_probs', true),
  ignored('stream_options', 'every answer has its counts', { include_usage: true }, { stream: true }),
  ignored('stream_options.include_usage', 'every answer has its counts', true, { stream: true }),
  ignored('samplers', 'editors always send it; the order is fixed', ['top_k']),
  ignored('t_max_prompt_ms', 'editors always send it; llama-server ignores it, too', 1),
  ...['n_keep', 'n_discard'].map((name) => ignored(name, NOTHING_CUT, 1)),
  ...['cache_prompt', 'id_slot', 'n_cache_reuse', 'backend_sampling', 'message_delimiters'].map((name) =>
    ignored(name, HOW, 1),
  ),
  ...['verbose', 'timings_per_token', 'return_progress', 'sse_ping_interval'].map((name) =>
    ignored(name, 'the answer always has the same fields', 1),
  ),
  ...['n_max', 'n_min', 'p_min', 'type', 'ngram_size_n', 'ngram_size_m', 'ngram_min_hits'].map((name) =>
    dotted(`speculative.${name}`, DRAFTS, 1),
  ),
  ...[
    'grammar_lazy',
    'grammar_triggers',
    'preserved_tokens',
    'chat_format',
    'chat_parser',
    'generation_prompt',
    'parse_tool_calls',
    'continue_final_message',
    'echo',
  ].map((name) => ignored(name, CHATS, 1)),
  ...[
    'reasoning_format',
    'reasoning_control',
    'reasoning_budget_tokens',
    'reasoning_budget_start_tag',
    'reasoning_budget_end_tags',
    'reasoning_budget_end_tag',
    'reasoning_budget_message',
  ].map((name) => ignored(name, THINKS, 1)),
];

/** Two lines, with more than a millisecond before the second. */
const lines: Script = async function* () {
  yield START;
  yield text('a');
  const from = performance.now();
  while (performance.now() - from < 2);
  yield text('\nb');
  yield FINISH;
};

export const LLAMA_COMPLETION: Api = {
  title: 'llama-server: completion',
  path: '/completion',
  sdk: null,
  llama: { route: 'completions', hasSamplers: true, more: ['model'] },
  base: { prompt: 'a' },
  script: lines,
  fields: [MODEL, ...HONOURED, ...REFUSED, ...IGNORED],
};

const OF_GAP: readonly Field[] = [
  honoured('input_prefix', 'raw.infill.prefix', 'other'),
  honoured('input_suffix', 'raw.infill.suffix', 'other'),
  honoured('input_extra', 'raw.infill.extra', [{ text: 'd' }]),
  honoured('input_extra[].filename', 'raw.infill.extra[0].filename', 'a.ts', { input_extra: [{ text: 'd' }] }),
  honoured('input_extra[].text', 'raw.infill.extra[0].text', 'e', { input_extra: [{ text: 'd' }] }),
];

export const INFILL: Api = {
  title: 'llama-server: infill',
  path: '/infill',
  sdk: null,
  llama: { route: 'infill', hasSamplers: true, more: ['model', 'input_extra[].filename', 'input_extra[].text'] },
  base: GAP,
  script: lines,
  fields: [MODEL, ...OF_GAP, ...HONOURED, ...REFUSED, ...IGNORED],
};

export const TOKENIZE: Api = {
  title: 'llama-server: tokenize',
  path: '/tokenize',
  sdk: null,
  llama: { route: 'tokenize', more: ['model'] },
  base: { content: 'ab' },
  fields: [
    MODEL,
    honoured('content', 'text', 'other'),
    honoured('add_special', 'add_special', true),
    honoured('parse_special', 'parse_special', false),
    honoured('with_pieces', 'pieces', true),
  ],
};

export const DETOKENIZE: Api = {
  title: 'llama-server: detokenize',
  path: '/detokenize',
  sdk: null,
  llama: { route: 'detokenize', more: ['model'] },
  base: { tokens: [97, 98] },
  fields: [MODEL, honoured('tokens', 'tokens', [99])],
};

const USER = { role: 'user', content: 'hi' };
const TOOL = { type: 'function', function: { name: 'f' } };
const TOOLS = { tools: [TOOL] };
const OF_ANSWER = 'it changes the answer, not the prompt';

/** The prompt of a chat completion: the fields are those that llama-server reads for it. */
export const APPLY_TEMPLATE: Api = {
  title: 'llama-server: apply-template',
  path: '/apply-template',
  sdk: null,
  llama: { route: 'apply_template', isChat: true, more: ['model'] },
  base: { messages: [USER] },
  fields: [
    MODEL,
    needed('messages'),
    honoured('tools', 'tools', [TOOL]),
    honoured('tool_choice', 'tool_choice', 'required', TOOLS),
    honoured('parallel_tool_calls', 'parallel_tool_calls', false, TOOLS),
    honoured('chat_template_kwargs', 'chat_template_kwargs', { a: 1 }),
    honoured('reasoning_effort', 'reasoning_effort', 'low'),
    honoured('reasoning_budget_tokens', 'reasoning_budget_tokens', 100),
    honoured('response_format', 'format', { type: 'json_object' }),
    honoured('json_schema', 'format', { type: 'object' }),
    honoured('grammar', 'format', 'root ::= "a"'),
    honoured('stop', 'stop', ['END']),
    honoured('logprobs', 'logprobs', true),
    honoured('top_logprobs', 'logprobs', 2, { logprobs: true }),
    ignored('stream', OF_ANSWER, true),
    refused('thinking_budget_tokens', 100),
    ignored('reasoning_budget_message', "svc ends reasoning with the template's end tag alone", 'Enough.'),
    ignored('reasoning_control', OF_ANSWER, true),
    ignored('reasoning_format', 'reasoning is always apart from the answer', 'none'),
    ignored(
      'add_generation_prompt',
      'a last message of the assistant is continued, every other one is answered',
      false,
    ),
    ignored('continue_final_message', 'a last message of the assistant is always continued', true),
  ],
};

export const PROPS: Api = {
  title: 'llama-server: props',
  path: '/props',
  method: 'GET',
  sdk: null,
  base: {},
  fields: [honoured('model', 'answer', 'fast'), ignored('autoload', '/props never loads a model', true)],
};

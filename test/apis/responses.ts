/** OpenAI's Responses: making one, counting its input, and reading a stored one. */
import { FINISH, START, text, type Script } from '../http/scripted.ts';
import { honoured, ignored, refused, type Api, type Field } from './declare.ts';
import { CACHE, INPUT, INPUT_KINDS, INPUT_OPAQUE, INPUT_PARTS } from './responses-input.ts';
import { TOOL_FIELDS, TOOL_KINDS, TOOL_PARTS } from './responses-tools.ts';

const responses = 'openai/resources/responses';
const SCHEMA = { text: { format: { type: 'json_schema', name: 'a', schema: {} } } };
const HAS_NONE = 'svc has no such tools';
const NO_SETTING = 'the models here have no such setting';
const REPEATED = 'answer';
const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'];
const SUMMARIES = ['auto', 'concise', 'detailed'];

const thinking: Script = async function* () {
  yield START;
  yield { type: 'reasoning', text: 'Hm.' };
  yield text('hello');
  yield FINISH;
};

/** Fields that say what the model reads. */
const PROMPT: readonly Field[] = [
  honoured('model', 'model', 'small'),
  ...INPUT,
  honoured('instructions', 'messages[0].role', 'Be brief.'),
  honoured('previous_response_id', 'messages', 'resp_STORED'),
  refused('conversation', 'conv_1'),
  honoured('truncation = auto', 'truncate', 'auto'),
  ignored('truncation = disabled', 'it is the default', 'disabled'),
  honoured('reasoning', 'reasoning_effort', { effort: 'low' }),
  ...EFFORTS.map((effort) => honoured(`reasoning.effort = ${effort}`, 'reasoning_effort', effort)),
  ignored('reasoning.context', 'chat templates say which reasoning a model reads again', 'all_turns'),
  ignored('reasoning.generate_summary', 'summary has replaced it', 'auto'),
  ignored('reasoning.mode', 'there is one mode', 'standard'),
  honoured('text', 'format', { format: { type: 'json_object' } }),
  honoured('text.format', 'format', { type: 'json_object' }),
  ignored('text.format.type = text', 'it is the default', { type: 'text' }),
  honoured('text.format.type = json_object', 'format', { type: 'json_object' }),
  honoured('text.format.type = json_schema', 'format', SCHEMA.text.format),
  honoured('text.format.name', 'format.name', 'b', SCHEMA),
  honoured('text.format.schema', 'format.schema', { type: 'object' }, SCHEMA),
  honoured('text.format.strict', 'format.strict', true, SCHEMA),
  ignored('text.format.description', 'the schema is enforced, not described', 'a list', SCHEMA),
  ...['low', 'medium', 'high'].map((level) => ignored(`text.verbosity = ${level}`, NO_SETTING, level)),
  ...TOOL_FIELDS,
];

const OF_ANSWERS: readonly Field[] = [
  honoured('background', 'answer', true, { stream: true }),
  honoured('include', 'logprobs', ['message.output_text.logprobs']),
  honoured('include[] = message.output_text.logprobs', 'logprobs', 'message.output_text.logprobs'),
  honoured('include[] = reasoning.encrypted_content', REPEATED, 'reasoning.encrypted_content'),
  ignored(
    'include[] = message.input_image.image_url',
    'items of the input have it anyway',
    'message.input_image.image_url',
  ),
  ...[
    'file_search_call.results',
    'web_search_call.results',
    'web_search_call.action.sources',
    'computer_call_output.output.image_url',
    'code_interpreter_call.outputs',
  ].map((name) => ignored(`include[] = ${name}`, HAS_NONE, name)),
  ...SUMMARIES.map((summary) => honoured(`reasoning.summary = ${summary}`, 'answer', summary)),
  honoured('max_output_tokens', 'max_tokens', 5),
  honoured('top_logprobs', 'logprobs', 2),
  honoured('temperature', 'sampling.temperature', 0.5),
  honoured('top_p', 'sampling.top_p', 0.5),
  honoured('stream', 'answer', true),
  ignored('stream_options', 'a stream has no padding', { include_obfuscation: true }, { stream: true }),
  ignored('stream_options.include_obfuscation', 'a stream has no padding', true, { stream: true }),
  honoured('store', 'store', false),
  honoured('metadata', REPEATED, { a: 'b' }),
  honoured('user', REPEATED, 'someone'),
  honoured('safety_identifier', REPEATED, 'a'),
  honoured('prompt_cache_key', REPEATED, 'a'),
  ignored('prompt_cache_options', CACHE, { mode: 'implicit' }),
  ignored('prompt_cache_retention', CACHE, '24h'),
  ignored('service_tier', 'there is one tier', 'auto'),
  refused('prompt', { id: 'pmpt_1' }),
  refused('context_management', [{ type: 'compaction', compact_threshold: 1000 }]),
  refused('moderation', { model: 'omni' }),
];

const PARTS = [...INPUT_PARTS, ...TOOL_PARTS, 'reasoning', 'text', 'text.format'];
const KINDS = [...INPUT_KINDS, ...TOOL_KINDS, 'truncation', 'reasoning.effort', 'text.format.type', 'text.verbosity'];
const base = { model: 'tiny', input: 'hi' };

export const RESPONSES: Api = {
  title: 'OpenAI: responses',
  path: '/v1/responses',
  sdk: {
    file: `${responses}/responses.d.ts`,
    name: 'ResponseCreateParams',
    parts: [...PARTS, 'stream_options'],
    kinds: [...KINDS, 'include[]', 'reasoning.summary'],
    opaque: INPUT_OPAQUE,
  },
  base,
  script: thinking,
  hasStored: true,
  fields: [...PROMPT, ...OF_ANSWERS],
};

export const RESPONSE_TOKENS: Api = {
  title: "OpenAI: tokens of a response's input",
  path: '/v1/responses/input_tokens',
  sdk: {
    file: `${responses}/input-tokens.d.ts`,
    name: 'InputTokenCountParams',
    parts: PARTS,
    kinds: KINDS,
    opaque: INPUT_OPAQUE,
  },
  base,
  hasStored: true,
  fields: [
    ...PROMPT,
    ignored('reasoning.summary', 'tokens are counted; no answer is generated', 'auto'),
    ignored('personality', NO_SETTING, 'friendly'),
  ],
};

export const RESPONSE_SHOWN: Api = {
  title: 'OpenAI: a stored response',
  path: '/v1/responses/resp_STORED',
  method: 'GET',
  sdk: { file: `${responses}/responses.d.ts`, name: 'ResponseRetrieveParams' },
  base: {},
  hasStored: true,
  fields: [
    honoured('stream', 'answer', true),
    honoured('starting_after', 'answer', 1, { stream: true }),
    ignored('include', 'all stored fields are always returned', ['message.output_text.logprobs']),
    ignored('include_obfuscation', 'a stream has no padding', true),
  ],
};

export const RESPONSE_ITEMS: Api = {
  title: 'OpenAI: input items of a stored response',
  path: '/v1/responses/resp_STORED/input_items',
  method: 'GET',
  sdk: { file: `${responses}/input-items.d.ts`, name: 'InputItemListParams', kinds: ['order'] },
  base: {},
  hasStored: true,
  fields: [
    honoured('limit', 'answer', 1),
    honoured('after', 'answer', 'msg_STORED_in1'),
    honoured('order = asc', 'answer', 'asc'),
    ignored('order = desc', 'it is the default', 'desc'),
    ignored('include', 'all stored fields are always returned', ['message.input_image.image_url']),
  ],
};

/** OpenAI's chat completions. */
import { honoured, ignored, refused, type Api, type Field } from './declare.ts';
import { SHARED } from './openai.ts';

const PNG = 'data:image/png;base64,iVBORw0KGgo=';
const PART = { messages: [{ role: 'user', content: [{ type: 'text', text: 'hi' }] }] };
const ASSISTANT = { messages: [{ role: 'assistant', content: 'a' }] };
const TOOL = { type: 'function', function: { name: 'f' } };
const TOOLS = { tools: [TOOL] };
const SCHEMA = { response_format: { type: 'json_schema', json_schema: { name: 'a', schema: {} } } };
const CALLS = [{ id: 'c1', ...TOOL, function: { name: 'f', arguments: '{}' } }];
const CALLED = { messages: [{ role: 'assistant', content: null, tool_calls: CALLS }] };
const CUSTOM_CALLS = [{ id: 'c1', type: 'custom', custom: { name: 'c', input: 'x' } }];
const CUSTOM_CALL = { messages: [{ role: 'assistant', content: null, tool_calls: CUSTOM_CALLS }] };
const CONTENT = 'messages[].content[]';
const CACHE = 'every prompt is cached automatically';

const IMAGE = { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: `${PNG}AAAA` } }] }] };
const AUDIO = { type: 'input_audio', input_audio: { format: 'wav', data: 'UklGRg==' } };
const SOUND = { messages: [{ role: 'user', content: [AUDIO] }] };
const FILE = { messages: [{ role: 'user', content: [{ type: 'file' }] }] };
const REFUSAL = { messages: [{ role: 'assistant', content: [{ type: 'refusal', refusal: 'No.' }] }] };

const MESSAGES: readonly Field[] = [
  honoured('messages', 'messages', [{ role: 'user', content: 'other' }]),
  honoured('messages[].role = developer', 'messages[0].role', { role: 'developer', content: 'hi' }),
  honoured('messages[].role = system', 'messages[0].role', { role: 'system', content: 'hi' }),
  honoured('messages[].role = user', 'messages[0].role', { role: 'user', content: 'hi' }, ASSISTANT),
  honoured('messages[].role = assistant', 'messages[0].role', { role: 'assistant', content: 'hi' }),
  honoured('messages[].role = tool', 'messages[0].role', { role: 'tool', content: 'hi', tool_call_id: 'c1' }),
  refused('messages[].role = function', { role: 'function', content: 'hi', name: 'f' }),
  honoured('messages[].content', 'messages[0].content', 'other'),
  ignored('messages[].name', 'chat templates have no names of people', 'Ada'),
  honoured('messages[].tool_calls', 'messages[0].tool_calls', CALLS, ASSISTANT),
  honoured('messages[].tool_calls[].id', 'messages[0].tool_calls[0].id', 'c2', CALLED),
  ignored('messages[].tool_calls[].type', 'every call is one of a function', 'function', CALLED),
  honoured('messages[].tool_calls[].function', 'messages[0].tool_calls', { name: 'g', arguments: '{}' }, CALLED),
  honoured('messages[].tool_calls[].function.name', 'messages[0].tool_calls[0].name', 'g', CALLED),
  honoured('messages[].tool_calls[].function.arguments', 'messages[0].tool_calls[0].arguments', '{"a":1}', CALLED),
  honoured('messages[].tool_calls[].custom', 'messages[0].tool_calls', { name: 'd', input: 'x' }, CUSTOM_CALL),
  honoured('messages[].tool_calls[].custom.name', 'messages[0].tool_calls[0].name', 'd', CUSTOM_CALL),
  honoured('messages[].tool_calls[].custom.input', 'messages[0].tool_calls[0].arguments', 'y', CUSTOM_CALL),
  honoured('messages[].tool_call_id', 'messages[0].tool_call_id', 'c1', {
    messages: [{ role: 'tool', content: '1' }],
  }),
  refused('messages[].function_call', { name: 'f', arguments: '{}' }, ASSISTANT),
  honoured('messages[].refusal', 'messages[0].content', 'No.', { messages: [{ role: 'assistant', content: null }] }),
  ignored('messages[].audio', 'the models here answer with text only', { id: 'audio_1' }, ASSISTANT),
  honoured(`${CONTENT}.image_url`, 'messages[0].content', { url: PNG }, IMAGE),
  honoured(`${CONTENT}.input_audio`, 'messages[0].content[0].data', { format: 'wav', data: 'UklGRgAA' }, SOUND),
  honoured(`${CONTENT}.image_url.url`, 'messages[0].content[0].data', PNG, IMAGE),
  ignored(`${CONTENT}.image_url.detail`, 'a model sees every picture in its own resolution', 'low', IMAGE),
  honoured(`${CONTENT}.input_audio.data`, 'messages[0].content[0].data', 'UklGRgAA', SOUND),
  honoured(`${CONTENT}.input_audio.format`, 'messages[0].content[0].media_type', 'mp3', SOUND),
  refused(`${CONTENT}.file`, { file_id: 'file-1' }, FILE, `${CONTENT}.type`),
  honoured(`${CONTENT}.refusal`, 'messages[0].content', 'Never.', REFUSAL),
  honoured('messages[].content[].type = text', 'messages[0].content', { type: 'text', text: 'other' }),
  honoured(`${CONTENT}.type = image_url`, 'messages[0].content', { type: 'image_url', image_url: { url: PNG } }),
  honoured(`${CONTENT}.type = input_audio`, 'messages[0].content', AUDIO),
  refused(`${CONTENT}.type = file`, { type: 'file', file: { file_id: 'file-1' } }),
  honoured(`${CONTENT}.type = refusal`, 'messages[0].content', { type: 'refusal', refusal: 'No.' }, ASSISTANT),
  honoured(`${CONTENT}.text`, 'messages[0].content', 'other', PART),
  ignored(`${CONTENT}.prompt_cache_breakpoint`, CACHE, { mode: 'explicit' }, PART),
];

const FORMATS: readonly Field[] = [
  honoured('response_format', 'format', { type: 'json_object' }),
  ignored('response_format.type = text', 'it is the default', { type: 'text' }),
  honoured('response_format.type = json_object', 'format', { type: 'json_object' }),
  honoured('response_format.type = json_schema', 'format', SCHEMA.response_format),
  honoured('response_format.json_schema', 'format.name', { name: 'b', schema: {} }, SCHEMA),
  honoured('response_format.json_schema.name', 'format.name', 'b', SCHEMA),
  honoured('response_format.json_schema.schema', 'format.schema', { type: 'object' }, SCHEMA),
  honoured('response_format.json_schema.strict', 'format.strict', true, SCHEMA),
  ignored('response_format.json_schema.description', 'the schema is enforced, not described', 'a list', SCHEMA),
];

const OTHER = { type: 'function', function: { name: 'g' } };
const CHOICE = { tools: [TOOL, OTHER], tool_choice: TOOL };
const ALLOWED = { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [OTHER] } };
const UNKNOWN = 'only the models of OpenAI know such tools; the response lists their types in `ignored_tools`';
const CUSTOM = { type: 'custom', custom: { name: 'c' } };

const TOOL_FIELDS: readonly Field[] = [
  honoured('tools', 'tools', [TOOL]),
  honoured('tools[].type = function', 'tools', TOOL),
  honoured('tools[].function', 'tools[0].name', { name: 'g' }, TOOLS),
  honoured('tools[].function.name', 'tools[0].name', 'g', TOOLS),
  honoured('tools[].function.description', 'tools[0].description', 'adds', TOOLS),
  honoured('tools[].function.parameters', 'tools[0].parameters', { type: 'object' }, TOOLS),
  honoured('tools[].function.strict', 'tools[0].strict', true, TOOLS),
  ignored('tools[].type = custom', UNKNOWN, CUSTOM),
  ignored('tools[].custom', UNKNOWN, CUSTOM.custom, { tools: [{ type: 'custom' }] }),
  honoured('tool_choice', 'tool_choice', 'required', TOOLS),
  honoured('tool_choice.type = function', 'tool_choice', TOOL, TOOLS),
  honoured('tool_choice.function', 'tool_choice.name', { name: 'g' }, CHOICE),
  honoured('tool_choice.function.name', 'tool_choice.name', 'g', CHOICE),
  refused('tool_choice.type = custom', CUSTOM, TOOLS, 'tool_choice'),
  refused('tool_choice.custom', CUSTOM.custom, { ...TOOLS, tool_choice: { type: 'custom' } }, 'tool_choice'),
  honoured('tool_choice.type = allowed_tools', 'tools', ALLOWED, CHOICE),
  honoured('tool_choice.allowed_tools', 'tools', { mode: 'auto', tools: [TOOL] }, { ...CHOICE, tool_choice: ALLOWED }),
  honoured('tool_choice.allowed_tools.mode', 'tool_choice', 'required', { ...CHOICE, tool_choice: ALLOWED }),
  honoured('tool_choice.allowed_tools.tools', 'tools', [TOOL], { ...CHOICE, tool_choice: ALLOWED }),
  honoured('parallel_tool_calls', 'parallel_tool_calls', false, TOOLS),
  refused('functions', [{ name: 'f' }]),
  refused('function_call', { name: 'f' }),
];

const LABEL = 'svc counts by API key, and stores no labels of chats';

export const CHAT: Api = {
  title: 'OpenAI: chat completions',
  path: '/v1/chat/completions',
  sdk: {
    file: 'openai/resources/chat/completions/completions.d.ts',
    name: 'ChatCompletionCreateParams',
    parts: [
      'response_format',
      'response_format.json_schema',
      'stream_options',
      'tools[]',
      'tools[].function',
      'tool_choice',
      'tool_choice.function',
      'tool_choice.allowed_tools',
      'messages[]',
      'messages[].tool_calls[]',
      'messages[].tool_calls[].function',
      'messages[].tool_calls[].custom',
      CONTENT,
      `${CONTENT}.image_url`,
      `${CONTENT}.input_audio`,
    ],
    kinds: ['tools[].type', 'tool_choice.type', 'response_format.type', 'messages[].role', `${CONTENT}.type`],
  },
  base: { model: 'tiny', messages: [{ role: 'user', content: 'hi' }] },
  fields: [
    ...MESSAGES,
    ...SHARED,
    honoured('max_completion_tokens', 'max_tokens', 5),
    honoured('max_tokens', 'max_tokens', 5),
    honoured('logprobs', 'logprobs', true),
    honoured('top_logprobs', 'logprobs', 2, { logprobs: true }),
    honoured('reasoning_effort', 'reasoning_effort', 'low'),
    honoured('store', 'store', false),
    ...FORMATS,
    ...TOOL_FIELDS,
    refused('modalities', ['audio']),
    refused('audio', { voice: 'alloy', format: 'wav' }),
    refused('web_search_options', {}),
    ignored('metadata', LABEL, { a: 'b' }),
    refused('moderation', { model: 'omni' }),
    ignored('prediction', 'it only makes an answer faster; svc drafts from the prompt by itself', {
      type: 'content',
      content: 'a',
    }),
    ignored('prompt_cache_key', CACHE, 'a'),
    ignored('prompt_cache_options', CACHE, { mode: 'implicit' }),
    ignored('prompt_cache_retention', CACHE, '24h'),
    ignored('safety_identifier', LABEL, 'a'),
    ignored('service_tier', 'there is one tier', 'auto'),
    ignored('verbosity', 'the models here have no such setting', 'low'),
  ],
};

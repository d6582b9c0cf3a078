/** Ollama's routes that answer with text or vectors. */
import { honoured, ignored, refused, type Api, type Field } from './declare.ts';
import { toContext } from '../../src/protocol/ollama/context.ts';
import { IGNORED, REFUSED } from '../../src/protocol/ollama/options.ts';

const file = 'ollama/dist/index.d.ts';
const USER = { role: 'user', content: 'hi' };
const CALLS = { role: 'assistant', tool_calls: [{ function: { name: 'f' } }, { function: { name: 'g' } }] };
const CALLED = { messages: [CALLS] };
const TOOLS = { tools: [{ type: 'function', function: { name: 'f' } }] };
const PNG = Buffer.from('\x89PNG\r\n\x1a\n0123', 'latin1').toString('base64');
const SAME = [
  'temperature',
  'top_p',
  'min_p',
  'typical_p',
  'repeat_penalty',
  'frequency_penalty',
  'presence_penalty',
  'mirostat',
  'mirostat_tau',
  'mirostat_eta',
  'top_k',
  'repeat_last_n',
  'seed',
];

const OPTIONS: readonly Field[] = [
  ...SAME.map((name) => honoured(`options.${name}`, `sampling.${name}`, 1)),
  honoured('options.num_predict', 'max_tokens', 5),
  honoured('options.stop', 'stop', ['END']),
  ...Object.entries(IGNORED).map(([name, why]) => ignored(`options.${name}`, why, 1)),
  ...Object.entries(REFUSED).map(([name, [neutral]]) =>
    refused(`options.${name}`, typeof neutral === 'boolean' ? !neutral : 0.5),
  ),
];

/** Fields of both requests. */
const COMMON: readonly Field[] = [
  honoured('model', 'model', 'small'),
  honoured('stream', 'answer', false),
  honoured('format', 'format', 'json'),
  honoured('keep_alive', 'keep_alive_seconds', '5m'),
  honoured('think', 'reasoning_effort', false),
  honoured('logprobs', 'logprobs', true),
  honoured('top_logprobs', 'logprobs', 3, { logprobs: true }),
  honoured('options', 'max_tokens', { num_predict: 3 }),
  ...OPTIONS,
];

export const OLLAMA_CHAT: Api = {
  title: 'Ollama: chat',
  path: '/api/chat',
  sdk: {
    file,
    name: 'ChatRequest',
    parts: [
      'options',
      'messages[]',
      'messages[].tool_calls[]',
      'messages[].tool_calls[].function',
      'tools[]',
      'tools[].function',
    ],
    opaque: ['messages[].images[]', 'tools[].function.parameters'],
  },
  base: { model: 'tiny', messages: [USER] },
  fields: [
    honoured('messages', 'messages', [{ role: 'user', content: 'other' }]),
    honoured('messages[].role', 'messages[0].role', 'system'),
    honoured('messages[].content', 'messages[0].content', 'other'),
    honoured('messages[].thinking', 'messages[0].reasoning', 'so', { messages: [{ role: 'assistant', content: 'a' }] }),
    honoured('messages[].images', 'messages[0].content', [PNG]),
    honoured('messages[].tool_calls', 'messages[0].tool_calls', CALLS.tool_calls, {
      messages: [{ role: 'assistant', content: 'a' }],
    }),
    honoured('messages[].tool_calls[].function', 'messages[0].tool_calls', { name: 'h' }, CALLED),
    honoured('messages[].tool_calls[].function.name', 'messages[0].tool_calls[1].name', 'h', CALLED),
    honoured('messages[].tool_calls[].function.arguments', 'messages[0].tool_calls[1].arguments', { a: 1 }, CALLED),
    honoured('messages[].tool_name', 'messages[1].tool_call_id', 'g', {
      messages: [CALLS, { role: 'tool', content: '1' }],
    }),
    honoured('tools', 'tools', [{ type: 'function', function: { name: 'f' } }]),
    refused('tools[].type', 'other', { tools: [{ function: { name: 'f' } }] }),
    honoured('tools[].function', 'tools', { name: 'f' }, { tools: [] }),
    honoured('tools[].function.name', 'tools[0].name', 'g', TOOLS),
    honoured('tools[].function.description', 'tools[0].description', 'adds', TOOLS),
    honoured('tools[].function.parameters', 'tools[0].parameters', { type: 'object' }, TOOLS),
    ignored('tools[].function.type', 'a function has a name and a schema; Ollama ignores it too', 'function', TOOLS),
    ...COMMON,
  ],
};

export const OLLAMA_GENERATE: Api = {
  title: 'Ollama: generate',
  path: '/api/generate',
  sdk: { file, name: 'GenerateRequest', parts: ['options'], opaque: ['images[]'] },
  base: { model: 'tiny', prompt: 'hi' },
  fields: [
    honoured('prompt', 'messages[0].content', 'other'),
    honoured('system', 'messages[0].role', 'Be brief.'),
    honoured('images', 'messages[0].content', [PNG]),
    honoured('raw', 'raw', true),
    honoured('suffix', 'raw.infill.suffix', 'end'),
    honoured('context', 'messages[1].content', toContext([{ role: 'user', content: 'q' }], 'a')),
    refused('template', '{{ .Prompt }}'),
    refused('width', 64),
    refused('height', 64),
    refused('steps', 4),
    ...COMMON,
  ],
};

const VECTORS: readonly Field[] = [
  honoured('model', 'model', 'small'),
  honoured('keep_alive', 'keep_alive_seconds', '5m'),
  ignored('options', 'they do not affect vectors, but are checked', { temperature: 1 }),
];

export const OLLAMA_EMBED: Api = {
  title: 'Ollama: embed',
  path: '/api/embed',
  sdk: { file, name: 'EmbedRequest' },
  base: { model: 'tiny', input: 'hi' },
  fields: [
    honoured('input', 'input', ['other']),
    honoured('truncate', 'truncate', false),
    honoured('dimensions', 'dimensions', 2),
    ...VECTORS,
  ],
};

export const OLLAMA_EMBEDDINGS: Api = {
  title: 'Ollama: embeddings',
  path: '/api/embeddings',
  sdk: { file, name: 'EmbeddingsRequest' },
  base: { model: 'tiny', prompt: 'hi' },
  fields: [honoured('prompt', 'input', 'other'), ...VECTORS],
};

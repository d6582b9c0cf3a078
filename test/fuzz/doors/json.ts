/**
 * Target `json`: bodies to each POST route, over TCP and over the control socket. The bodies are valid ones with some
 * values replaced, some also with damaged bytes.
 */
import { Pool } from 'undici';
import { CONTROL_ROUTES, HTTP_ROUTES } from '../../../src/protocol/routes.ts';
import type { Random } from '../random.ts';
import { damaged, once, randomBytes } from './bytes.ts';
import type { Door, Player } from './doors.ts';
import type { FuzzedDaemon } from './fuzzed-daemon.ts';
import { MESSAGES } from './messages-body.ts';
import { CONSOLE_BODIES } from './console-bodies.ts';
import { OLLAMA_CHAT, OLLAMA_EMBED, OLLAMA_GENERATE } from './ollama-bodies.ts';
import { SAMPLING } from './sampling.ts';

const CASES = 200_000;
const CONNECTIONS = 32;
const PATIENCE_MS = 300;
/** Allowed statuses: an unreachable registry or a model that is not loaded is not a fault of svc. */
const ALLOWED = [502, 503, 504, 529];

/** The fields that OpenAI's requests and ours have in common. */
const SAME = {
  model: 'tiny',
  stop: ['x'],
  truncate: true,
  repetition_guard: 'warn',
  lora: [{ id: 'a', scale: 0.5 }],
  reasoning_effort: 'low',
  reasoning_budget_tokens: 1,
  chat_template_kwargs: { enable_thinking: false, a: [{ b: null }] },
  parallel_tool_calls: false,
  route: 'local',
  fallback: false,
  priority: 'batch',
  context_length: 1,
  store: false,
};

const CHAT = {
  ...SAME,
  messages: [
    { role: 'system', content: 'a' },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'b' },
        { type: 'image_url', image_url: { url: 'data:image/png;base64,AA==', detail: 'low' } },
        { type: 'image_url', image_url: { url: 'https://a.example/b.png' } },
        { type: 'input_audio', input_audio: { data: 'AA==', format: 'wav' } },
      ],
    },
    {
      role: 'assistant',
      content: null,
      reasoning_content: 'g',
      tool_calls: [{ id: 'c', type: 'function', function: { name: 'd', arguments: '{}' } }],
    },
    { role: 'tool', content: 'e', tool_call_id: 'c' },
  ],
  max_tokens: 1,
  max_completion_tokens: 1,
  n_predict: 1,
  n: 2,
  stream: false,
  ...SAMPLING,
  logprobs: true,
  top_logprobs: 2,
  logit_bias: { '1': 2 },
  response_format: {
    type: 'json_schema',
    json_schema: { name: 'f', schema: { type: 'object', properties: { a: { enum: [1] } } } },
  },
  tools: [
    { type: 'function', function: { name: 'd', description: 'h', strict: true, parameters: { type: 'object' } } },
  ],
  tool_choice: { type: 'function', function: { name: 'd' } },
  stream_options: { include_usage: true },
  keep_alive: '5m',
  // Not supported: ignored, or refused by name.
  lora: [{ id: 0, scale: 0.5 }],
  functions: [],
  modalities: ['text'],
};

const RESPONSES = {
  model: 'tiny',
  input: [
    { role: 'developer', content: 'a' },
    {
      type: 'message',
      role: 'user',
      content: [
        { type: 'input_text', text: 'b' },
        { type: 'input_image', image_url: 'data:image/png;base64,AA==', detail: 'auto' },
        { type: 'input_audio', input_audio: { data: 'AA==', format: 'wav' } },
      ],
    },
    { type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: 'c' }], content: null },
    { type: 'function_call', id: 'fc_1', call_id: 'd', name: 'e', namespace: 'f', arguments: '{}' },
    { type: 'function_call_output', call_id: 'd', output: [{ type: 'input_text', text: 'g' }] },
    { type: 'item_reference', id: `msg_${'0'.repeat(32)}_0` },
  ],
  instructions: 'h',
  previous_response_id: `resp_${'0'.repeat(32)}`,
  max_output_tokens: 1,
  include: ['message.output_text.logprobs'],
  top_logprobs: 1,
  tools: [
    { type: 'function', name: 'e', description: null, parameters: { type: 'object' }, strict: true },
    { type: 'namespace', name: 'f', description: 'i', tools: [{ type: 'function', name: 'e' }] },
    { type: 'web_search' },
  ],
  tool_choice: { type: 'allowed_tools', mode: 'auto', tools: [{ type: 'function', name: 'e' }] },
  parallel_tool_calls: true,
  text: { format: { type: 'json_schema', name: 'j', schema: { type: 'object' }, strict: null }, verbosity: 'low' },
  reasoning: { effort: 'max', summary: 'auto' },
  metadata: { k: 'l' },
  truncation: 'auto',
  user: 'm',
  prompt_cache_key: 'n',
  safety_identifier: 'o',
  store: true,
  stream: false,
  background: false,
  ...SAMPLING,
  stop: ['p'],
  repetition_guard: 'warn',
  lora: [{ id: 'a', scale: 0.5 }],
  reasoning_budget_tokens: 1,
  chat_template_kwargs: { enable_thinking: false },
  route: 'local',
  fallback: false,
  priority: 'batch',
  context_length: 1,
  keep_alive: '5m',
};

/** Reaches the backend when it is not damaged. */
const PLAIN = { messages: [{ role: 'user', content: 'a' }], max_tokens: 1 };

const GENERATE = {
  ...SAME,
  messages: [
    {
      role: 'user',
      content: [
        { type: 'text', text: 'a' },
        { type: 'image', media_type: 'image/png', data: 'AA==' },
        { type: 'image_url', url: 'https://a.example/b.png' },
        { type: 'audio', media_type: 'audio/wav', data: 'AA==' },
      ],
    },
    { role: 'assistant', content: '', reasoning: 'b', tool_calls: [{ id: 'c', name: 'd', arguments: '{}' }] },
    { role: 'tool', content: 'e', tool_call_id: 'c' },
  ],
  max_tokens: 1,
  sampling: { ...SAMPLING, logit_bias: [[1, 2]] },
  format: { type: 'json_schema', schema: { type: 'object' }, name: 'f', strict: true },
  tools: [{ name: 'd', description: 'h', strict: null, parameters: { type: 'object' } }],
  tool_choice: { name: 'd' },
  reasoning_optional: true,
  logprobs: 2,
  keep_alive_seconds: 60,
  timeout_ms: 1000,
};

const EMBED = {
  model: 'tiny',
  input: ['a', [1, 2]],
  encoding_format: 'base64',
  dimensions: 4,
  truncate: true,
  route: 'local',
  context_length: 1,
  keep_alive: -1,
  user: 'b',
};

const RUNTIME_EMBED = {
  model: 'tiny',
  input: ['a', [1, 2]],
  dimensions: 4,
  truncate: true,
  route: 'local',
  context_length: 1,
  keep_alive_seconds: 60,
  timeout_ms: 1000,
};

const RUNTIME_RERANK = {
  model: 'tiny',
  query: 'a',
  documents: ['b'],
  max_document_tokens: 8,
  truncate: true,
  route: 'local',
  context_length: 1,
  keep_alive_seconds: 60,
  timeout_ms: 1000,
};

const RERANK = {
  model: 'tiny',
  query: 'a',
  documents: ['b', { text: 'c' }],
  top_n: 1,
  return_documents: true,
  max_tokens_per_doc: 8,
  rank_fields: ['text'],
  truncate: true,
  route: 'local',
  context_length: 1,
  keep_alive: 60,
};

const TOKENIZE = {
  model: 'tiny',
  content: 'a\u00e9',
  add_special: true,
  parse_special: false,
  with_pieces: true,
  route: 'local',
  context_length: 1,
  keep_alive: 60,
};

const { content: _content, ...TOKEN_SETTINGS } = TOKENIZE;

/** What legacy completions and chats have in common. */
const RAW = {
  model: 'tiny',
  stop: ['x'],
  truncate: true,
  repetition_guard: 'warn',
  lora: [{ id: 'a', scale: 0.5 }],
  route: 'local',
  fallback: false,
  priority: 'batch',
  context_length: 1,
  store: false,
  ...SAMPLING,
  logit_bias: { '1': 2 },
  n_predict: 1,
  n: 1,
  stream: false,
  stream_options: { include_usage: true },
  keep_alive: '5m',
};

const COMPLETION = { ...RAW, prompt: ['a', [1, 2]], max_tokens: 1, echo: true, best_of: 1, suffix: 'b', logprobs: 2 };

const LLAMA_COMPLETION = {
  ...RAW,
  prompt: 'e',
  max_completion_tokens: 1,
  max_tokens: 1,
  n_indent: 1,
  t_max_predict_ms: 1,
  response_fields: ['content', 'timings/prompt_n'],
};

const INFILL = {
  ...LLAMA_COMPLETION,
  input_prefix: 'a',
  input_suffix: 'b',
  input_extra: [{ filename: 'c', text: 'd' }],
};

export interface Body {
  readonly path: string;
  readonly control: boolean;
  /** Absent: POST. */
  readonly method?: 'DELETE';
  readonly value: object;
  /** Overrides for fields whose valid values would stop the daemon or make it refuse requests. */
  readonly spoilt?: object;
}

export const BODIES: readonly Body[] = [
  { path: HTTP_ROUTES.runtimeGenerate, control: true, value: GENERATE },
  { path: HTTP_ROUTES.runtimeGenerate, control: false, value: { ...PLAIN, sampling: SAMPLING } },
  { path: HTTP_ROUTES.runtimeEmbed, control: false, value: RUNTIME_EMBED },
  { path: HTTP_ROUTES.runtimeRerank, control: false, value: RUNTIME_RERANK },
  { path: HTTP_ROUTES.chatCompletions, control: false, value: CHAT },
  { path: HTTP_ROUTES.chatCompletions, control: false, value: PLAIN },
  { path: HTTP_ROUTES.chatCompletions, control: false, value: { ...PLAIN, n: 3, stream: true } },
  { path: HTTP_ROUTES.responses, control: false, value: RESPONSES },
  { path: HTTP_ROUTES.responses, control: false, value: { input: 'a', max_output_tokens: 1, stream: true } },
  { path: HTTP_ROUTES.responseInputTokens, control: false, value: RESPONSES },
  { path: HTTP_ROUTES.responseCancel, control: false, value: {} },
  { path: HTTP_ROUTES.embeddings, control: false, value: EMBED },
  { path: HTTP_ROUTES.messages, control: false, value: MESSAGES },
  { path: HTTP_ROUTES.countTokens, control: false, value: MESSAGES },
  { path: HTTP_ROUTES.messages, control: false, value: PLAIN },
  { path: HTTP_ROUTES.messages, control: false, value: { ...PLAIN, stream: true } },
  { path: HTTP_ROUTES.completions, control: false, value: COMPLETION },
  { path: HTTP_ROUTES.completions, control: false, value: { prompt: 'a', max_tokens: 1, logprobs: 1, stream: true } },
  { path: HTTP_ROUTES.tokenize, control: false, value: TOKENIZE },
  { path: HTTP_ROUTES.detokenize, control: false, value: { ...TOKEN_SETTINGS, tokens: [1, 2, 3] } },
  { path: HTTP_ROUTES.applyTemplate, control: false, value: CHAT },
  { path: HTTP_ROUTES.llamaCompletion, control: false, value: LLAMA_COMPLETION },
  { path: HTTP_ROUTES.infill, control: false, value: INFILL },
  ...[HTTP_ROUTES.rerank, HTTP_ROUTES.rerankV1, HTTP_ROUTES.rerankV2].map((path) => ({
    path,
    control: false,
    value: RERANK,
  })),
  { path: HTTP_ROUTES.ollamaChat, control: false, value: OLLAMA_CHAT },
  { path: HTTP_ROUTES.ollamaChat, control: false, value: { ...PLAIN, model: 'tiny', options: { num_predict: 1 } } },
  { path: HTTP_ROUTES.ollamaGenerate, control: false, value: OLLAMA_GENERATE },
  { path: HTTP_ROUTES.ollamaEmbed, control: false, value: OLLAMA_EMBED },
  { path: HTTP_ROUTES.ollamaEmbeddings, control: false, value: OLLAMA_EMBED },
  { path: HTTP_ROUTES.ollamaShow, control: false, value: { model: 'tiny', verbose: true } },
  { path: HTTP_ROUTES.ollamaCopy, control: false, value: { source: 'tiny', destination: 'copy' } },
  {
    path: HTTP_ROUTES.ollamaCreate,
    control: false,
    value: { model: 'made', from: 'tiny', system: 'a', parameters: { temperature: 1, stop: ['b'] }, stream: false },
  },
  { path: HTTP_ROUTES.ollamaDelete, control: false, method: 'DELETE', value: { model: 'copy' } },
  { path: HTTP_ROUTES.ollamaPull, control: false, value: { model: 'localhost:1/a/b', stream: false, insecure: true } },
  ...CONSOLE_BODIES,
  { path: CONTROL_ROUTES.stop, control: true, value: { drain_timeout_ms: 1 }, spoilt: { drain_timeout_ms: 'never' } },
  { path: CONTROL_ROUTES.drain, control: true, value: { drain: true }, spoilt: { drain: 'never' } },
  { path: CONTROL_ROUTES.reload, control: true, value: {} },
  { path: CONTROL_ROUTES.load, control: true, value: { model: 'tiny', context_length: 1, keep_alive_seconds: 1 } },
  { path: CONTROL_ROUTES.unload, control: true, value: { model: 'tiny' } },
  { path: CONTROL_ROUTES.pull, control: true, value: { reference: 'hf:a/b', token: 'x', insecure: false } },
  { path: CONTROL_ROUTES.providerModels, control: true, value: { provider: 'x' } },
  { path: CONTROL_ROUTES.providerTest, control: true, value: { provider: 'x' } },
  { path: CONTROL_ROUTES.providerKey, control: true, value: { provider: 'x', key: 'y' } },
];

const STRANGE: readonly unknown[] = [
  ...[
    null,
    true,
    false,
    0,
    -0,
    -1,
    0.5,
    1e308,
    2 ** 53,
    4_294_967_296,
    '',
    ' ',
    '\0',
    '\ud800',
    '\u202e',
    'a'.repeat(2000),
  ],
  ...[
    '__proto__',
    'constructor',
    '../..',
    'file:/etc/passwd',
    'provider:__proto__',
    'NaN',
    '1',
    [],
    {},
    [[]],
    [{}],
    { a: {} },
  ],
  ...[
    { constructor: { prototype: 1 } },
    { toString: 1, valueOf: 2 },
    { length: -1 },
    { then: 'x' },
    ['a', ['b', ['c']]],
  ],
];

export const json: Door = {
  name: 'json',
  cases: CASES,
  isShipped: false,
  open: (daemon) => Promise.resolve(new JsonPlayer(daemon)),
};

class JsonPlayer implements Player {
  readonly #tcp: Pool;
  readonly #control: Pool;

  constructor(daemon: FuzzedDaemon) {
    const options = { connections: CONNECTIONS, headersTimeout: PATIENCE_MS, bodyTimeout: PATIENCE_MS };
    this.#tcp = new Pool(`http://127.0.0.1:${String(daemon.httpPort)}`, options);
    this.#control = new Pool('http://localhost', { ...options, socketPath: daemon.socketPath });
  }

  async play(random: Random): Promise<string | null> {
    const body = random.of(BODIES);
    const bytes = bodyBytes(random, body);
    try {
      const { statusCode, body: answer } = await (body.control ? this.#control : this.#tcp).request({
        path: body.path,
        method: body.method ?? 'POST',
        headers: { 'content-type': 'application/json' },
        body: bytes,
      });
      const text = await answer.text();
      if (statusCode < 500 || ALLOWED.includes(statusCode) || /config_invalid/i.test(text)) return null;
      return `${body.path} answers ${String(statusCode)} ${text.trim()} to ${bytes.toString()}`;
    } catch {
      // A longer generation, or a connection that the daemon closed; check() shows whether the daemon lives.
      return null;
    }
  }

  close(): void {
    for (const pool of [this.#tcp, this.#control]) void pool.destroy();
  }
}

function bodyBytes(random: Random, { value, spoilt }: Body): Buffer {
  if (once(random, 12)) return randomBytes(random, 60);
  let made: unknown = structuredClone(value);
  for (let change = random.below(3); change > 0; change -= 1) made = changed(random, made);
  if (spoilt !== undefined) return Buffer.from(JSON.stringify({ ...(made as object), ...spoilt }));
  const bytes = Buffer.from(JSON.stringify(made));
  return once(random, 3) ? damaged(random, bytes) : bytes;
}

/** Returns a copy with something replaced, removed or added. */
function changed(random: Random, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || once(random, 6)) return random.of(STRANGE);
  const keys = Object.keys(value);
  const key = once(random, 8) || keys.length === 0 ? random.of(['x', '__proto__', 'file', '0']) : random.of(keys);
  const copy = structuredClone(value) as Record<string, unknown>;
  if (once(random, 8)) Reflect.deleteProperty(copy, key);
  else copy[key] = changed(random, copy[key]);
  return copy;
}

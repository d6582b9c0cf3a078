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

const CASES = 200_000;
const CONNECTIONS = 32;
const PATIENCE_MS = 300;
/** Allowed statuses: an unreachable registry or a model that is not loaded is not a fault of svc. */
const ALLOWED = [502, 503, 504];

const CHAT = {
  model: 'tiny',
  messages: [
    { role: 'system', content: 'a' },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'b' },
        { type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } },
      ],
    },
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'c', type: 'function', function: { name: 'd', arguments: '{}' } }],
    },
    { role: 'tool', content: 'e', tool_call_id: 'c' },
  ],
  max_completion_tokens: 1,
  stream: false,
  stop: ['x'],
  temperature: 0.5,
  seed: 1,
  logprobs: true,
  top_logprobs: 2,
  logit_bias: { '1': 2 },
  response_format: {
    type: 'json_schema',
    json_schema: { name: 'f', schema: { type: 'object', properties: { a: { enum: [1] } } } },
  },
  tools: [{ type: 'function', function: { name: 'd', parameters: { type: 'object' } } }],
  tool_choice: 'auto',
  stream_options: { include_usage: true },
};

const GENERATE = {
  model: 'tiny',
  messages: [{ role: 'user', content: 'a' }],
  max_tokens: 1,
  sampling: { temperature: 0.5, logit_bias: [[1, 2]] },
  stop: ['x'],
  format: { type: 'json_schema', schema: { type: 'object' } },
  route: 'local',
  fallback: false,
};

interface Body {
  readonly path: string;
  readonly control: boolean;
  readonly value: object;
  /** Overrides for fields whose valid values would stop the daemon or make it refuse requests. */
  readonly spoilt?: object;
}

const BODIES: readonly Body[] = [
  { path: HTTP_ROUTES.chatCompletions, control: false, value: CHAT },
  {
    path: HTTP_ROUTES.chatCompletions,
    control: false,
    value: { messages: [{ role: 'user', content: 'a' }], max_tokens: 1 },
  },
  {
    path: HTTP_ROUTES.embeddings,
    control: false,
    value: { model: 'tiny', input: ['a', [1, 2]], encoding_format: 'base64', dimensions: 4 },
  },
  {
    path: HTTP_ROUTES.rerank,
    control: false,
    value: { model: 'tiny', query: 'a', documents: ['b', { text: 'c' }], top_n: 1, return_documents: true },
  },
  { path: HTTP_ROUTES.ollamaPull, control: false, value: { model: 'localhost:1/a/b', stream: false, insecure: true } },
  { path: CONTROL_ROUTES.generate, control: true, value: GENERATE },
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
        method: 'POST',
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

/** Quotas, lists of models and expiry of API keys at a real daemon, as the official clients see them. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { RateLimitError } from '@anthropic-ai/sdk';
import OpenAI, { APIError } from 'openai';
import * as assert from 'uvu/assert';
import { addKey } from '../../src/home/key-file.ts';
import type { KeyLimits } from '../../src/protocol/keys.ts';
import { connectTo, failureOf as grpcFailure } from '../grpc/scripted.ts';
import { ask, type Answer } from '../http/ask.ts';
import { compiled } from '../support/compiled.ts';
import { anthropicAt } from '../support/anthropic.ts';
import { daemonSuite, startIn, type DaemonContext } from '../support/daemon-suite.ts';
import { failureOf } from '../support/failure.ts';
import { svc } from '../support/svc.ts';

const entry = compiled(fileURLToPath(new URL('scripted-daemon.ts', import.meta.url)));
const messages = [{ role: 'user' as const, content: 'hi' }];
/** Tokens of each answer of the scripted engine. */
const TOKENS = 9;

const test = daemonSuite('key-limits');

interface Address {
  readonly port: number;
  readonly url: string;
  readonly grpc: string;
  kill(): Promise<void>;
}

async function start(context: DaemonContext): Promise<Address> {
  const daemon = await startIn(context, { entry, args: [] }).settled();
  const { http, grpc } = await daemon.client.status();
  const kill = async (): Promise<void> => {
    daemon.kill('SIGKILL');
    await daemon.exit;
  };
  return { port: Number(http?.split(':').at(-1)), url: `http://${String(http)}`, grpc: String(grpc), kill };
}

const keyFile = ({ home }: DaemonContext): string => join(home.dir, 'data', 'keys.json');

async function add(context: DaemonContext, name: string, limits: KeyLimits): Promise<string> {
  return (await addKey(keyFile(context), name, 'inference', limits)).key;
}

const openAi = ({ url }: Address, apiKey: string): OpenAI =>
  new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 2 });
const bearer = (key: string): Record<string, string> => ({ authorization: `Bearer ${key}` });

test('a quota is refused in the shape of each API until it renews, also after kill -9', async (context) => {
  const key = await add(context, 'laptop', { tokens_per_day: 2 * TOKENS });
  const other = await add(context, 'other', { tokens_per_month: 1_000_000 });
  let daemon = await start(context);
  for (let answers = 0; answers < 2; answers++)
    await openAi(daemon, key).chat.completions.create({ model: 'tiny', messages });
  await daemon.kill();
  daemon = await start(context);

  const openai = await failureOf(APIError, openAi(daemon, key).chat.completions.create({ model: 'tiny', messages }));
  assert.equal([openai.status, openai.code], [429, 'rate_limit_exceeded']);
  assert.match(openai.message, /API key laptop has used up its quota of 18 tokens per day; it renews at .*T00:00:00Z/);
  const headers = openai.headers as unknown as Headers;
  const wait = Number(headers.get('retry-after'));
  assert.ok(wait > 0 && wait <= 86_400, String(wait));
  assert.is(headers.get('x-should-retry'), 'false');

  const anthropic = anthropicAt(daemon.url, key).messages.create({ model: 'tiny', max_tokens: 1, messages });
  assert.match((await failureOf(RateLimitError, anthropic)).message, /has used up its quota/);
  const chat = { model: 'tiny', messages, stream: false };
  const ollama = await ask(daemon, '/api/chat', { headers: bearer(key), body: chat });
  assert.is(ollama.status, 429);
  assert.match(ollama.json().error, /has used up its quota/);
  const background = { model: 'tiny', input: 'hi', background: true };
  const refused = await ask(daemon, '/v1/responses', { headers: bearer(key), body: background });
  assert.is(refused.status, 429);
  assert.match(refused.text, /has used up its quota/);
  const client = connectTo(daemon.grpc, undefined, key);
  const grpc = await grpcFailure(client.stream('Inference/Generate', { messages }));
  client.close();
  assert.match(JSON.stringify(grpc), /has used up its quota/);

  assert.is((await ask(daemon, '/v1/models', { headers: bearer(key) })).status, 200, 'listing uses no tokens');
  await openAi(daemon, other).chat.completions.create({ model: 'tiny', messages });
  const { stdout } = await svc(['usage', '--by', 'key', '--json'], { home: context.home });
  const { usage } = JSON.parse(stdout) as { usage: { key: string; input_tokens: number; output_tokens: number }[] };
  const spent = usage.map((row) => [row.key, row.input_tokens + row.output_tokens]);
  assert.equal(spent, [
    ['laptop', 2 * TOKENS],
    ['other', TOKENS],
  ]);
});

test('an answer that the client cuts off counts too', async (context) => {
  const key = await add(context, 'laptop', { tokens_per_day: 3 });
  const daemon = await start(context);
  const answers = openAi(daemon, key).chat.completions;
  const stream = await answers.create({ model: 'tiny', messages, stream: true, max_completion_tokens: 1000 });
  let chunks = 0;
  for await (const _ of stream) if (++chunks > 5) break;
  const error = await failureOf(
    APIError,
    (async () => {
      for (;;) await answers.create({ model: 'tiny', messages, max_completion_tokens: 1 });
    })(),
  );
  assert.is(error.status, 429);
});

test('a key sees and uses only the models in its list', async (context) => {
  const open = await add(context, 'open', { models: ['Tiny'] });
  const closed = await add(context, 'closed', { models: ['other'] });
  const daemon = await start(context);

  const listed = async (key: string): Promise<string[]> => {
    const get = async (path: string, headers = {}): Promise<any> =>
      (await ask(daemon, path, { headers: { ...bearer(key), ...headers } })).json();
    const grpc = connectTo(daemon.grpc, undefined, key);
    const { models } = await grpc.unary('Runtime/ListModels');
    grpc.close();
    const ofOllama = (await get('/api/tags')).models as { model: string }[];
    const all = [
      ...(await get('/v1/models')).data,
      ...(await get('/v1/models', { 'anthropic-version': '2023-06-01' })).data,
    ];
    return [...all, ...models].map(({ id }) => String(id)).concat(ofOllama.map(({ model }) => model));
  };
  assert.equal(await listed(open), ['tiny', 'tiny', 'tiny', 'tiny:latest']);
  assert.equal(await listed(closed), []);

  const both = async (path: string, bodyOf: (model: string) => object): Promise<void> => {
    const post = (key: string, model: string): Promise<Answer> =>
      ask(daemon, path, { headers: bearer(key), body: bodyOf(model) });
    assert.is((await post(open, 'tiny')).status, 200, path);
    const hidden = await post(closed, 'tiny');
    assert.is(hidden.status, 404, path);
    const unknown = await post(closed, 'nope');
    const plain = ({ text }: Answer): string => text.replace(/[0-9a-f]{32}/g, '').replaceAll('nope', 'tiny');
    assert.equal([unknown.status, plain(unknown)], [404, plain(hidden)], path);
  };
  await both('/v1/chat/completions', (model) => ({ model, messages }));
  await both('/v1/responses', (model) => ({ model, input: 'hi' }));
  await both('/v1/completions', (model) => ({ model, prompt: 'hi' }));
  await both('/v1/messages', (model) => ({ model, messages, max_tokens: 1 }));
  await both('/v1/messages/count_tokens', (model) => ({ model, messages }));
  await both('/tokenize', (model) => ({ model, content: 'hi' }));
  await both('/api/chat', (model) => ({ model, messages, stream: false }));
  await both('/api/generate', (model) => ({ model, stream: false }));

  const named = (key: string, path: string): Promise<Answer> => ask(daemon, path, { headers: bearer(key) });
  assert.is((await named(open, '/v1/models/tiny')).status, 200);
  assert.is((await named(closed, '/v1/models/tiny')).status, 404);
  const grpc = connectTo(daemon.grpc, undefined, closed);
  const failure = await grpcFailure(grpc.stream('Inference/Generate', { messages, model: 'tiny' }));
  grpc.close();
  assert.match(JSON.stringify(failure), /MODEL_NOT_FOUND/);
});

test('an expired key is refused, and opens nothing to programs without one', async (context) => {
  const key = await add(context, 'guest', {});
  const daemon = await start(context);
  const status = async (headers = {}): Promise<number> => (await ask(daemon, '/v1/models', { headers })).status;
  assert.is(await status(bearer(key)), 200);
  const file = JSON.parse(readFileSync(keyFile(context), 'utf8')) as { keys: object[] };
  const expired = { ...file.keys[0], expires_at: new Date(Date.now() - 1).toISOString() };
  writeFileSync(keyFile(context), JSON.stringify({ ...file, keys: [expired] }), { mode: 0o600 });
  assert.equal([await status(bearer(key)), await status()], [401, 401]);
});

test.run();

/**
 * No text that a client puts into any field of any API appears in the log of a real daemon at level trace, nor in any
 * other file that it writes. A fake provider quotes everything that it receives in its errors.
 */
import { randomBytes } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { addKey } from '../../src/home/key-file.ts';
import { CONTROL_ROUTES, HTTP_ROUTES } from '../../src/protocol/routes.ts';
import { EmbedRequestSchema } from '../../src/protocol/embed.ts';
import { GenerateRequestSchema, MessageSchema } from '../../src/protocol/generate.ts';
import { EmbeddingsFieldsSchema } from '../../src/protocol/openai-embeddings.ts';
import { ResponseFormatSchema } from '../../src/protocol/openai-format.ts';
import { ChatCompletionSchema } from '../../src/protocol/openai-request.ts';
import { startUpstream, type Upstream } from '../backends/cloud/upstream.ts';
import { connectTo, definitions, failureOf } from '../grpc/scripted.ts';
import { ask, type To } from '../http/ask.ts';
import { spawnDaemon, type DaemonProcess } from '../support/daemon.ts';
import { makeHome, type Home } from '../support/home.ts';
import { planted, plantedMessages } from './planted.ts';

const TEXT = `canary-text-${randomBytes(8).toString('hex')}`;
const HELLO = [{ role: 'user', content: 'hi' }];
/** Maximum length of a log line, including JSON overhead. */
const LINE_LENGTH = 17 * 1024;

const test = suite<{ home: Home; upstream: Upstream; daemon: DaemonProcess; port: number }>('text of clients');
test.before.each(async (context) => {
  context.home = await makeHome();
  let turns = 0;
  context.upstream = await startUpstream((turn) => {
    const status = [400, 404, 500, 401, 503, 429][turns++ % 6] ?? 500;
    const quoted = JSON.stringify(turn.request.body);
    turn.json(status, { error: { message: quoted, code: quoted } }, { 'x-should-retry': 'false' });
  });
  mkdirSync(join(context.home.dir, 'config'), { recursive: true });
  const provider = { kind: 'openai_compatible', base_url: `${context.upstream.url}/v1`, default_model: 'm' };
  writeFileSync(join(context.home.dir, 'config', 'config.json'), JSON.stringify({ providers: { mine: provider } }));
  context.daemon = await spawnDaemon(context.home, {
    // Model names with planted text must not reach a real hub.
    env: { SVC_LOG_LEVEL: 'trace', HF_ENDPOINT: 'http://127.0.0.1:9', HF_HUB_OFFLINE: '1' },
  }).settled();
  const { http } = await context.daemon.client.status();
  context.port = Number(http?.split(':').at(-1));
});
test.after.each(async ({ home, upstream, daemon }) => {
  daemon.kill('SIGKILL');
  await daemon.exit;
  await upstream.close();
  await home.remove();
});

/** Searches every file of the home and the standard error of the daemon. */
function expectNone({ home, daemon }: { home: Home; daemon: DaemonProcess }): void {
  const files = readdirSync(home.dir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((file) => [file.name, readFileSync(join(file.parentPath, file.name), 'latin1')] as const);
  assert.ok(files.some(([name, text]) => name === 'daemon.log' && text.length > 10_000));
  const written = [
    ...files,
    ['standard error', [...daemon.stray, ...daemon.log.map((line) => JSON.stringify(line))].join('\n')] as const,
  ];
  for (const [name, text] of written) {
    const at = text.toLowerCase().indexOf(TEXT);
    assert.is(at, -1, `${name}: …${text.slice(Math.max(0, at - 300), at + 100)}…`);
    if (name !== 'daemon.log') continue;
    const longest = Math.max(...text.split('\n').map((line) => line.length));
    assert.ok(longest < LINE_LENGTH, `a line of ${String(longest)} characters`);
  }
}

async function sendAll(to: To, path: string, bodies: Iterable<unknown>): Promise<number[]> {
  const statuses: number[] = [];
  for (const body of bodies) statuses.push((await ask(to, path, { body: body as object })).status);
  return statuses;
}

function* openAiBodies(): Generator<object, void, undefined> {
  for (const body of planted(ChatCompletionSchema, TEXT)) {
    if (typeof body !== 'object') continue;
    const { messages = HELLO } = body as { messages?: unknown };
    yield { max_tokens: 1, ...body, messages: Array.isArray(messages) && messages.length === 0 ? HELLO : messages };
  }
  for (const response_format of planted(ResponseFormatSchema, TEXT))
    yield { max_tokens: 1, messages: HELLO, response_format };
  for (const name of ['grammar', 'json_schema', 'functions', 'modalities', 'user'])
    for (const value of [TEXT, { [TEXT]: TEXT }, [TEXT]]) yield { max_tokens: 1, messages: HELLO, [name]: value };
  for (const message of planted(MessageSchema, TEXT)) {
    yield { max_tokens: 1, messages: [message] };
    yield { max_tokens: 1, messages: [message], route: 'provider:mine' };
  }
}

test('text in requests over HTTP and the control socket is not logged', async (context) => {
  const { daemon, port } = context;
  const control = { socketPath: daemon.socketPath };
  const chats = await sendAll({ port }, HTTP_ROUTES.chatCompletions, openAiBodies());
  for (const status of [200, 400, 404]) assert.ok(chats.includes(status), String(status));
  const embeddings = [...planted(EmbedRequestSchema, TEXT), ...planted(EmbeddingsFieldsSchema, TEXT)];
  await sendAll(
    { port },
    HTTP_ROUTES.embeddings,
    embeddings.map((body) => ({ input: 'hi', ...(body as object) })),
  );
  const generations = [...planted(GenerateRequestSchema, TEXT)].map((body) => ({ max_tokens: 1, ...(body as object) }));
  await sendAll(control, CONTROL_ROUTES.generate, generations);
  await sendAll(
    control,
    CONTROL_ROUTES.generate,
    generations.map((body) => ({ ...body, route: 'provider:mine' })),
  );
  for (const route of Object.values(CONTROL_ROUTES)) {
    // The following requests need a running daemon.
    if (route === CONTROL_ROUTES.stop || route === CONTROL_ROUTES.generate) continue;
    for (const name of ['model', 'provider', 'key', 'sha256', 'hub', 'drain', 'keep_alive_seconds'])
      await sendAll(control, route, [{ [name]: TEXT }, { model: `hf:o/${TEXT}`, provider: TEXT, key: TEXT }]);
  }
  const { key } = await addKey(join(context.home.dir, 'data', 'keys.json'), 'deploy', 'admin');
  const pulls = [{ model: TEXT }, { name: `hf:o/${TEXT}` }, { model: `h:1/o/${TEXT}` }];
  for (const body of pulls) await ask({ port }, HTTP_ROUTES.ollamaPull, { body, headers: { 'x-api-key': key } });
  for (const path of [`/v1/models/${TEXT}`, `/readyz/${TEXT}`, `/readyz?exclude=${TEXT}`, `/${TEXT}`]) {
    await ask({ port }, path, { headers: { 'x-api-key': key } });
    await ask(control, path);
  }
  expectNone(context);
});

test('text in requests over gRPC is not logged', async (context) => {
  const { grpc } = await context.daemon.client.status();
  const client = connectTo(grpc ?? '');
  try {
    const reasons = new Set<string | undefined>();
    const outcome = async (work: Parameters<typeof failureOf>[0]): Promise<void> => {
      reasons.add(
        await failureOf(work).then(
          ({ reason }) => reason,
          () => 'OK',
        ),
      );
    };
    const asked = [...plantedMessages(definitions, 'svc.v1.GenerateRequest', TEXT)];
    for (const route of [undefined, 'provider:mine'])
      for (const request of asked)
        await outcome(
          client.stream('Inference/Generate', { messages: HELLO, max_tokens: 1, ...(route && { route }), ...request }),
        );
    for (const request of plantedMessages(definitions, 'svc.v1.EmbedRequest', TEXT))
      await outcome(client.unary('Inference/Embed', { input: [{ text: 'hi' }], ...request }));
    for (const reason of ['OK', 'INVALID_REQUEST', 'MODEL_NOT_FOUND', 'NOT_FOUND'])
      assert.ok(reasons.has(reason), `${reason} of ${[...reasons].join(' ')}`);
    expectNone(context);
  } finally {
    client.close();
  }
});

test('text of 300,000 characters in any field does not reach the log', async (context) => {
  const { daemon, port } = context;
  const long = TEXT + 'A'.repeat(300_000);
  await sendAll(
    { port },
    HTTP_ROUTES.chatCompletions,
    [...planted(ChatCompletionSchema, long)].map((body) => ({ messages: HELLO, ...(body as object) })),
  );
  await sendAll({ socketPath: daemon.socketPath }, CONTROL_ROUTES.generate, planted(GenerateRequestSchema, long));
  await ask({ port }, HTTP_ROUTES.chatCompletions, { body: { messages: HELLO, route: `provider:${long}` } });
  expectNone(context);
});

test.run();

/**
 * No text that a client puts into any field of any API appears in the log of a real daemon at level trace, nor in any
 * other file that it writes, nor in its traces. A fake provider quotes everything that it receives in its errors.
 */
import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type * as v from 'valibot';
import { addKey } from '../../src/home/key-file.ts';
import type { RouteScope } from '../../src/daemon/http/authorize.ts';
import { CONTROL, PUBLIC } from '../../src/daemon/http/routes.ts';
import { CONTROL_ROUTES, HTTP_ROUTES } from '../../src/protocol/routes.ts';
import { EmbedRequestSchema } from '../../src/protocol/embed.ts';
import { GenerateRequestSchema, MessageSchema } from '../../src/protocol/generate.ts';
import {
  AssistantBlocksSchema,
  ResultBlocksSchema,
  SystemBlocksSchema,
  UserBlocksSchema,
} from '../../src/protocol/anthropic/blocks.ts';
import { MessagesFieldsSchema, PromptFieldsSchema } from '../../src/protocol/anthropic/messages-request.ts';
import { CustomToolSchema, ToolFieldsSchema } from '../../src/protocol/anthropic/tools.ts';
import { EmbeddingsFieldsSchema } from '../../src/protocol/openai/embeddings.ts';
import { TranscriptionFieldsSchema } from '../../src/protocol/openai/transcription.ts';
import { ResponseFormatSchema } from '../../src/protocol/openai/response-format.ts';
import { ChatCompletionSchema } from '../../src/protocol/openai/chat-request.ts';
import { InputItemSchema } from '../../src/protocol/openai/responses/items.ts';
import { ResponsesSchema, TextFormatSchema } from '../../src/protocol/openai/responses/request.ts';
import {
  NamespaceToolSchema,
  ToolFieldsSchema as ResponsesToolFieldsSchema,
} from '../../src/protocol/openai/responses/tools.ts';
import { FunctionToolSchema, ToolChoiceSchema } from '../../src/protocol/openai/tools.ts';
import { RerankFieldsSchema } from '../../src/protocol/cohere/rerank.ts';
import { OllamaChatSchema } from '../../src/protocol/ollama/chat-request.ts';
import { OllamaEmbedSchema } from '../../src/protocol/ollama/embed.ts';
import { OllamaGenerateSchema } from '../../src/protocol/ollama/generate-request.ts';
import { OllamaMessageSchema } from '../../src/protocol/ollama/messages.ts';
import { CopySchema, CreateSchema, NamedModelSchema } from '../../src/protocol/ollama/models.ts';
import { OptionsSchema } from '../../src/protocol/ollama/options.ts';
import { RerankRequestSchema } from '../../src/protocol/rerank.ts';
import { LlamaCompletionSchema } from '../../src/protocol/llama-server/completion.ts';
import { InfillSchema } from '../../src/protocol/llama-server/infill.ts';
import { DetokenizeSchema, TokenizeSchema } from '../../src/protocol/llama-server/tokenize.ts';
import { CompletionSchema } from '../../src/protocol/openai/completions.ts';
import { DetokenizeRequestSchema, TokenizeTextRequestSchema } from '../../src/protocol/tokenize.ts';
import { connectTo, definitions, failureOf } from '../grpc/scripted.ts';
import { ask, type To } from '../http/ask.ts';
import { wav } from '../support/media-files.ts';
import { consoleBodies } from './console-bodies.ts';
import { planted, plantedMessages, plantedSchemas } from './planted.ts';
import { endQuotingDaemon, searchTraces, startQuotingDaemon, type QuotingDaemon } from './quoting-daemon.ts';

const TEXT = `canary-text-${randomBytes(8).toString('hex')}`;
/** As base64, in which no hyphen may stand. */
const PLAIN = TEXT.replaceAll('-', '');
const PROTOCOL = fileURLToPath(new URL('../../src/protocol', import.meta.url));
const HELLO = [{ role: 'user', content: 'hi' }];
/** Maximum length of a log line, including JSON overhead. */
const LINE_LENGTH = 17 * 1024;

const test = suite<QuotingDaemon>('text of clients');
test.before.each(async (context) => {
  Object.assign(context, await startQuotingDaemon());
});
test.after.each(async (context) => {
  await endQuotingDaemon(context);
});

/** Searches every file of the home and the standard error of the daemon. */
function expectNone({ home, daemon }: QuotingDaemon): void {
  const files = readdirSync(home.dir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((file) => [file.name, readFileSync(join(file.parentPath, file.name), 'latin1')] as const);
  assert.ok(files.some(([name, text]) => name === 'daemon.log' && text.length > 10_000));
  const written = [
    ...files,
    ['standard error', [...daemon.stray, ...daemon.log.map((line) => JSON.stringify(line))].join('\n')] as const,
  ];
  for (const [name, text] of written) {
    const lower = text.toLowerCase();
    const at = Math.max(lower.indexOf(TEXT), lower.indexOf(PLAIN));
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

function* chatBodies(): Generator<object, void, undefined> {
  for (const body of planted(ChatCompletionSchema, TEXT)) {
    if (typeof body !== 'object') continue;
    const { messages = HELLO } = body as { messages?: unknown };
    yield { max_tokens: 1, ...body, messages: Array.isArray(messages) && messages.length === 0 ? HELLO : messages };
  }
  for (const tool of planted(FunctionToolSchema, TEXT))
    yield { max_tokens: 1, messages: HELLO, tools: [{ type: 'function', function: tool }], tool_choice: 'none' };
  for (const response_format of planted(ResponseFormatSchema, TEXT))
    yield { max_tokens: 1, messages: HELLO, response_format };
  for (const name of ['grammar', 'json_schema', 'functions', 'modalities', 'user'])
    for (const value of [TEXT, { [TEXT]: TEXT }, [TEXT]]) yield { max_tokens: 1, messages: HELLO, [name]: value };
  for (const message of [...planted(MessageSchema, TEXT), ...WIRE_MESSAGES]) {
    yield { max_tokens: 1, messages: [message] };
    yield { max_tokens: 1, messages: [message], route: 'provider:mine' };
  }
}

/** Parts and results as OpenAI's clients send them; MessageSchema has ours. */
const WIRE_MESSAGES: readonly object[] = [
  ...[
    { type: TEXT, text: TEXT },
    { type: 'image_url', image_url: { url: TEXT, detail: TEXT } },
    { type: 'image_url', image_url: { url: `https://a.example/${TEXT}` } },
    { type: 'image_url', image_url: { url: `data:image/png;base64,${PLAIN}` } },
    { type: 'image_url', image_url: { url: `data:${TEXT};base64,aGVsbG8=` } },
    { type: 'input_audio', input_audio: { data: PLAIN, format: 'wav' } },
    { type: 'input_audio', input_audio: { data: TEXT, format: TEXT } },
  ].map((part) => ({ role: 'user', content: [part] })),
  {
    role: 'assistant',
    content: null,
    tool_calls: [{ id: TEXT, type: 'function', function: { name: TEXT, arguments: TEXT } }],
  },
  { role: 'tool', content: TEXT, tool_call_id: TEXT },
];

/** `start` and each planted body over it, for local models that can answer and for a provider. */
function bodiesOver(start: object, schemas: readonly v.GenericSchema[]): object[] {
  const bodies = schemas.flatMap((schema) => [...planted(schema, TEXT)]);
  return bodies.map((body) => ({ ...start, ...(body as object) }));
}

/** As Anthropic's clients send them. */
function messagesBodies(): object[] {
  const start = { max_tokens: 1, messages: HELLO };
  const turnsOf = (role: string, schema: v.GenericSchema): object[] =>
    [...planted(schema, TEXT)].map((content) => ({ ...start, messages: [...HELLO, { role, content }] }));
  const use = { type: 'tool_use', id: 'a', name: 'b', input: {} };
  const all = [
    ...bodiesOver(start, [PromptFieldsSchema, MessagesFieldsSchema, ToolFieldsSchema]),
    ...turnsOf('user', UserBlocksSchema),
    ...turnsOf('assistant', AssistantBlocksSchema),
    ...[...planted(SystemBlocksSchema, TEXT)].map((system) => ({ ...start, system })),
    ...[...planted(CustomToolSchema, TEXT)].map((tool) => ({ ...start, tools: [tool] })),
    ...[...planted(ResultBlocksSchema, TEXT)].map((content) => ({
      ...start,
      messages: [
        ...HELLO,
        { role: 'assistant', content: [use] },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'a', content }] },
      ],
    })),
  ];
  return all.flatMap((body) => [body, { ...body, route: 'provider:mine' }]);
}

function rerankBodies(): object[] {
  const schemas = [RerankRequestSchema, RerankFieldsSchema];
  const text = { query: 'hi', documents: ['a'] };
  return [
    { ...text, model: 'ranker', query: TEXT, documents: [TEXT, { text: TEXT }], return_documents: true },
    ...[TEXT, [TEXT], { [TEXT]: TEXT }].map((rank_fields) => ({ ...text, rank_fields })),
    ...[{ ...text, model: 'ranker' }, text, { ...text, route: 'provider:mine' }].flatMap((start) =>
      bodiesOver(start, schemas),
    ),
  ];
}

/** Nothing is stored: a stored response has its prompt in a file of its own, which has to have it. */
function* responsesBodies(): Generator<object, void, undefined> {
  const start = { input: HELLO, max_output_tokens: 1 };
  const own = function* (fields: object): Generator<object, void, undefined> {
    yield { ...start, ...fields, store: false };
    yield { ...start, ...fields, store: false, route: 'provider:mine' };
  };
  for (const fields of [...planted(ResponsesSchema, TEXT), ...planted(ResponsesToolFieldsSchema, TEXT)])
    if (typeof fields === 'object') yield* own(fields as object);
  for (const item of planted(InputItemSchema, TEXT)) yield* own({ input: [item] });
  for (const type of ['input_text', 'output_text', 'input_image', 'input_audio', 'refusal', TEXT])
    for (const role of ['user', 'assistant'])
      yield* own({
        input: [{ role, content: [{ type, text: TEXT, image_url: TEXT, input_audio: TEXT, refusal: TEXT }] }],
      });
  for (const format of planted(TextFormatSchema, TEXT)) yield* own({ text: { format } });
  for (const tool of planted(FunctionToolSchema, TEXT))
    yield* own({ tools: [{ ...(tool as object), type: 'function' }], tool_choice: 'none' });
  for (const tool of planted(NamespaceToolSchema, TEXT))
    yield* own({ tools: [{ ...(tool as object), type: 'namespace' }] });
  for (const tool_choice of planted(ToolChoiceSchema, TEXT)) yield* own({ tool_choice });
  for (const name of ['conversation', 'prompt', 'background', 'moderation']) yield* own({ [name]: TEXT });
}

/** A sound under a planted name with planted fields, as clients of OpenAI send it. */
async function sendForms(port: number, path: string): Promise<number[]> {
  const statuses: number[] = [];
  for (const fields of [...planted(TranscriptionFieldsSchema, TEXT), { prompt: TEXT }, { file: TEXT }]) {
    const form = new FormData();
    form.set('file', new Blob([wav(20, 440)]), `${TEXT}.wav`);
    for (const [name, value] of Object.entries(fields as object)) form.append(name, String(value));
    const { status } = await fetch(`http://127.0.0.1:${String(port)}${path}`, { method: 'POST', body: form });
    statuses.push(status);
  }
  return statuses;
}

function* completionBodies(): Generator<object, void, undefined> {
  yield { prompt: [TEXT, 'hi'], echo: true, stop: TEXT, user: TEXT, max_tokens: 1 };
  for (const prompt of [{ [TEXT]: TEXT }, [[TEXT]], [[1, TEXT]]]) yield { prompt };
  for (const start of [
    { prompt: 'hi', max_tokens: 1 },
    { prompt: 'hi', route: 'provider:mine' },
  ])
    yield* bodiesOver(start, [CompletionSchema]);
}

const OLLAMA = { model: 'default', stream: false, options: { num_predict: 1 } };

/** As bodiesOver, with a model that is there unless its name is planted. */
function ollamaBodies(start: object, schema: v.GenericSchema): object[] {
  const isPlanted = (body: object): boolean => JSON.stringify((body as { model?: unknown }).model ?? '').includes(TEXT);
  const bodies = bodiesOver(start, [schema]);
  return [start, ...bodies.map((body) => (isPlanted(body) ? body : { ...body, model: 'default' }))];
}

function* ollamaChatBodies(): Generator<object, void, undefined> {
  const asked = { ...OLLAMA, messages: HELLO };
  yield* ollamaBodies(asked, OllamaChatSchema);
  for (const message of planted(OllamaMessageSchema, TEXT)) {
    yield { ...asked, messages: [message] };
    yield { ...asked, messages: [message], route: 'provider:mine' };
  }
  for (const images of [[TEXT], [PLAIN], ['iVBORw0KGgo' + PLAIN]])
    yield { ...asked, messages: [{ role: 'user', content: TEXT, images }] };
  for (const options of planted(OptionsSchema, TEXT)) yield { ...asked, options };
}

function* ollamaGenerateBodies(): Generator<object, void, undefined> {
  const asked = { ...OLLAMA, prompt: 'hi' };
  yield* ollamaBodies(asked, OllamaGenerateSchema);
  for (const name of ['template', 'raw', 'suffix', 'context', 'options', 'format'])
    for (const value of [TEXT, [TEXT], { [TEXT]: TEXT }]) yield { ...asked, [name]: value };
}

function* generateBodies(): Generator<object, void, undefined> {
  for (const body of planted(GenerateRequestSchema, TEXT)) {
    const generation = { max_tokens: 1, ...(body as object) };
    yield* [generation, { ...generation, route: 'provider:mine' }];
  }
}

/** Bodies for each route of PUBLIC that has one; the others have forms. */
const BODIES: Readonly<Record<string, () => Iterable<object>>> = {
  [HTTP_ROUTES.chatCompletions]: chatBodies,
  [HTTP_ROUTES.messages]: messagesBodies,
  [HTTP_ROUTES.countTokens]: messagesBodies,
  [HTTP_ROUTES.responses]: responsesBodies,
  [HTTP_ROUTES.responseInputTokens]: responsesBodies,
  [HTTP_ROUTES.responseCancel]: () => [{ id: TEXT }],
  [HTTP_ROUTES.runtimeGenerate]: generateBodies,
  [HTTP_ROUTES.runtimeEmbed]: () => bodiesOver({ input: ['hi'] }, [EmbedRequestSchema]),
  [HTTP_ROUTES.runtimeRerank]: () =>
    bodiesOver({ model: 'ranker', query: 'hi', documents: ['a'] }, [RerankRequestSchema]),
  [HTTP_ROUTES.embeddings]: () =>
    [{ input: 'hi' }, { input: TEXT, model: 'm', route: 'provider:mine' }].flatMap((start) =>
      bodiesOver(start, [EmbedRequestSchema, EmbeddingsFieldsSchema]),
    ),
  [HTTP_ROUTES.completions]: completionBodies,
  [HTTP_ROUTES.tokenize]: () => bodiesOver({ content: 'hi' }, [TokenizeSchema, TokenizeTextRequestSchema]),
  [HTTP_ROUTES.detokenize]: () => bodiesOver({ tokens: [1] }, [DetokenizeSchema, DetokenizeRequestSchema]),
  [HTTP_ROUTES.applyTemplate]: () => [...chatBodies(), { messages: HELLO, model: TEXT }],
  [HTTP_ROUTES.llamaCompletion]: () => bodiesOver({ prompt: 'a', n_predict: 1 }, [LlamaCompletionSchema]),
  [HTTP_ROUTES.infill]: () => bodiesOver({ input_prefix: 'a', input_suffix: 'b', n_predict: 1 }, [InfillSchema]),
  [HTTP_ROUTES.rerankV1]: rerankBodies,
  [HTTP_ROUTES.rerankV2]: rerankBodies,
  [HTTP_ROUTES.rerank]: rerankBodies,
  [HTTP_ROUTES.ollamaChat]: ollamaChatBodies,
  [HTTP_ROUTES.ollamaGenerate]: ollamaGenerateBodies,
  [HTTP_ROUTES.ollamaShow]: () => [...ollamaBodies({ model: 'default' }, NamedModelSchema), { model: 7 }],
  [HTTP_ROUTES.ollamaEmbed]: () => [
    ...ollamaBodies({ model: 'default', input: [] }, OllamaEmbedSchema),
    ...ollamaBodies({ model: 'default' }, EmbedRequestSchema),
  ],
  [HTTP_ROUTES.ollamaEmbeddings]: () => [
    ...ollamaBodies({ model: 'default', prompt: '' }, OllamaEmbedSchema),
    ...[TEXT, [TEXT]].map((prompt) => ({ model: 'default', prompt })),
  ],
  [HTTP_ROUTES.ollamaCopy]: () => bodiesOver({ source: 'default', destination: 'a b' }, [CopySchema]),
  [HTTP_ROUTES.ollamaCreate]: () => [
    ...bodiesOver({ model: 'a b', from: 'default' }, [CreateSchema]),
    ...['modelfile', 'template', 'files'].map((name) => ({ model: 'x', from: 'default', [name]: TEXT })),
    { model: 'x', from: 'default', parameters: { [TEXT]: TEXT } },
    { model: 'x', from: 'default', parameters: { temperature: TEXT } },
  ],
  [HTTP_ROUTES.ollamaDelete]: () => [{ model: TEXT }, { name: TEXT }, { model: [TEXT] }],
  ...consoleBodies(TEXT),
  [HTTP_ROUTES.ollamaPull]: () => [{ model: TEXT }, { name: `hf:o/${TEXT}` }, { model: `h:1/o/${TEXT}` }],
};

/** Statuses of routes that answer no such request. */
const ENDS: Readonly<Record<string, readonly number[]>> = {
  [HTTP_ROUTES.responseCancel]: [404],
  [HTTP_ROUTES.signIn]: [400, 401],
};

const ADMIN: ReadonlySet<RouteScope> = new Set(['admin', 'admin_key']);

test('text in requests over HTTP and the control socket is not logged', async (context) => {
  const { daemon, port } = context;
  const control = { socketPath: daemon.socketPath };
  for (const { method, path, scope } of PUBLIC) {
    if (method !== 'POST' || ADMIN.has(scope)) continue;
    const bodies = BODIES[path];
    const isForm = path === HTTP_ROUTES.transcriptions;
    assert.ok(bodies ?? isForm, `no bodies for ${path}`);
    const statuses = bodies ? await sendAll({ port }, path.replace('*', TEXT), bodies()) : await sendForms(port, path);
    // No model here makes embeddings, hears or fills gaps, and no response is stored.
    const isRefused =
      ([HTTP_ROUTES.embeddings, HTTP_ROUTES.runtimeEmbed, HTTP_ROUTES.infill] as string[]).includes(path) || isForm;
    const all = ENDS[path] ?? (isRefused ? [400, 404] : [200, 400, 404]);
    for (const status of all) assert.ok(statuses.includes(status), `${path}: ${String(status)}`);
  }
  await sendAll(control, HTTP_ROUTES.runtimeGenerate, generateBodies());
  for (const { method, path } of CONTROL) {
    // The following requests need a running daemon.
    if (method !== 'POST' || path === CONTROL_ROUTES.stop) continue;
    for (const name of ['model', 'provider', 'key', 'sha256', 'hub', 'drain', 'keep_alive_seconds', 'context_length'])
      await sendAll(control, path, [{ [name]: TEXT }, { model: `hf:o/${TEXT}`, provider: TEXT, key: TEXT }]);
  }
  const { key } = await addKey(join(context.home.dir, 'data', 'keys.json'), 'deploy', 'admin');
  const headers = { 'x-api-key': key };
  for (const { method, path, scope } of PUBLIC) {
    if (method === 'GET' || !ADMIN.has(scope)) continue;
    const bodies = BODIES[path];
    assert.ok(bodies, `no bodies for ${path}`);
    for (const body of bodies()) await ask({ port }, path, { method, body, headers });
  }
  for (const { method, path } of [...PUBLIC, ...CONTROL]) {
    // `svc doctor` takes nothing from the client.
    if (method === 'POST' || path === HTTP_ROUTES.runtimeDoctor) continue;
    const query = `exclude=${TEXT}&${TEXT}&request=${TEXT}&count=1`;
    for (const asked of [`${path.replace('*', TEXT)}?count=1`, `${path}?${query}`, `${path}?level=${TEXT}&count=1`]) {
      await ask({ port }, asked, { method, headers });
      await ask(control, asked, { method });
    }
  }
  await ask({ port }, `/${TEXT}`, { headers });
  expectNone(context);
  await searchTraces(context, [TEXT, PLAIN]);
});

test('every exported schema of requests is planted', async () => {
  const names = new Map<unknown, string>();
  for (const file of readdirSync(PROTOCOL, { recursive: true, encoding: 'utf8' })) {
    if (!file.endsWith('.ts')) continue;
    const exported = (await import(pathToFileURL(join(PROTOCOL, file)).href)) as Readonly<Record<string, unknown>>;
    for (const [name, value] of Object.entries(exported)) if (name.endsWith('Schema')) names.set(value, name);
  }
  assert.ok(names.size > 10);
  assert.equal(
    [...names].filter(([schema]) => !plantedSchemas.has(schema)).map(([, name]) => name),
    [],
  );
});

/** Valid requests of the messages that the methods of svc.v1 take, to be planted in. */
const STARTS: Readonly<Record<string, readonly object[]>> = {
  GenerateRequest: [
    { messages: HELLO, max_tokens: 1 },
    { messages: HELLO, max_tokens: 1, route: 'provider:mine' },
  ],
  EmbedRequest: [{ input: [{ text: 'hi' }] }],
  RerankRequest: [
    { query: 'hi', documents: ['a'] },
    { query: 'hi', documents: ['a'], model: 'ranker' },
  ],
};

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
    for (const service of ['Inference', 'Runtime'])
      for (const [method, { requestType, responseStream }] of Object.entries(
        definitions.service(`svc.v1.${service}`),
      )) {
        const { name } = requestType.type as { readonly name: string };
        const call = `${service}/${method}`;
        const requests = [...plantedMessages(definitions, `svc.v1.${name}`, TEXT)];
        const starts = STARTS[name];
        assert.ok(requests.length === 0 || starts, `no valid ${name}`);
        for (const start of starts ?? [])
          for (const request of requests) {
            const whole = { ...start, ...request };
            await outcome(responseStream ? client.stream(call, whole) : client.unary(call, whole));
          }
      }
    for (const reason of ['OK', 'INVALID_REQUEST', 'MODEL_NOT_FOUND', 'NOT_FOUND'])
      assert.ok(reasons.has(reason), `${reason} of ${[...reasons].join(' ')}`);
    expectNone(context);
    await searchTraces(context, [TEXT, PLAIN]);
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
  await sendAll({ socketPath: daemon.socketPath }, HTTP_ROUTES.runtimeGenerate, planted(GenerateRequestSchema, long));
  await ask({ port }, HTTP_ROUTES.chatCompletions, { body: { messages: HELLO, route: `provider:${long}` } });
  expectNone(context);
  await searchTraces(context, [TEXT, PLAIN]);
});

test.run();

/** A short version of the campaigns that `npm run fuzz` runs against each listener of the daemon. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { CONTROL, PUBLIC } from '../../src/daemon/http/routes.ts';
import { MessagesFieldsSchema, PromptFieldsSchema } from '../../src/protocol/anthropic/messages-request.ts';
import { EmbedRequestSchema } from '../../src/protocol/embed.ts';
import { GenerateRequestSchema, SamplingSchema } from '../../src/protocol/generate.ts';
import { EmbeddingsFieldsSchema } from '../../src/protocol/openai/embeddings.ts';
import { ChatCompletionSchema } from '../../src/protocol/openai/chat-request.ts';
import { TranscriptionFieldsSchema } from '../../src/protocol/openai/transcription.ts';
import { ResponsesSchema } from '../../src/protocol/openai/responses/request.ts';
import { RerankFieldsSchema } from '../../src/protocol/cohere/rerank.ts';
import { RerankRequestSchema } from '../../src/protocol/rerank.ts';
import { LlamaCompletionSchema } from '../../src/protocol/llama-server/completion.ts';
import { InfillSchema } from '../../src/protocol/llama-server/infill.ts';
import { DetokenizeSchema, TokenizeSchema } from '../../src/protocol/llama-server/tokenize.ts';
import { CompletionSchema } from '../../src/protocol/openai/completions.ts';
import { OllamaChatSchema } from '../../src/protocol/ollama/chat-request.ts';
import { OllamaEmbedSchema } from '../../src/protocol/ollama/embed.ts';
import { OllamaGenerateSchema } from '../../src/protocol/ollama/generate-request.ts';
import { CopySchema, CreateSchema, NamedModelSchema } from '../../src/protocol/ollama/models.ts';
import { CONTROL_ROUTES, HTTP_ROUTES } from '../../src/protocol/routes.ts';
import { fuzzDoor } from './doors/campaign.ts';
import { DOORS, type Door } from './doors/doors.ts';
import { Random } from './random.ts';
import { FIELD_NAMES } from './doors/form.ts';
import { BODIES } from './doors/json.ts';
import { METHODS, requestBytes, VALID } from './doors/protobuf-messages.ts';

const CASES = 400;
const SEED = 20_26;

for (const door of DOORS) {
  test(`${String(CASES)} random cases against ${door.name} cause no finding`, async () => {
    assert.equal(await fuzzDoor(door, SEED, 0, CASES), []);
  });
}

/** Routes that change something and take no fields. */
const BODILESS: readonly string[] = [CONTROL_ROUTES.reload, HTTP_ROUTES.response, HTTP_ROUTES.responseCancel];

test('every POST and DELETE route and every field of its requests is fuzzed', () => {
  const bodiesOf = (path: string): string[] =>
    BODIES.filter((body) => body.path === path).flatMap(({ value }) => Object.keys(value));
  const fieldsOf = (path: string): Set<string> =>
    new Set(path === HTTP_ROUTES.transcriptions ? FIELD_NAMES : bodiesOf(path));
  for (const { method, path } of [...PUBLIC, ...CONTROL])
    if (method !== 'GET') assert.ok(fieldsOf(path).size > 0 || BODILESS.includes(path), path);
  // Over HTTP `keep_alive` and `max_tokens_per_doc` stand for two of our fields, and connections for the deadline.
  const others = ['keep_alive_seconds', 'timeout_ms', 'max_document_tokens'];
  const missing = (path: string, ...schemas: { readonly entries: object }[]): string[] =>
    schemas.flatMap(({ entries }) => Object.keys(entries)).filter((name) => !fieldsOf(path).has(name));
  assert.equal(missing(HTTP_ROUTES.chatCompletions, ChatCompletionSchema, SamplingSchema), []);
  assert.equal(missing(HTTP_ROUTES.messages, PromptFieldsSchema, MessagesFieldsSchema), []);
  assert.equal(missing(HTTP_ROUTES.countTokens, PromptFieldsSchema), []);
  assert.equal(missing(HTTP_ROUTES.responses, ResponsesSchema), []);
  assert.equal(missing(HTTP_ROUTES.responseInputTokens, ResponsesSchema), []);
  assert.equal(missing(HTTP_ROUTES.runtimeGenerate, GenerateRequestSchema), []);
  assert.equal(missing(HTTP_ROUTES.runtimeEmbed, EmbedRequestSchema), []);
  assert.equal(missing(HTTP_ROUTES.runtimeRerank, RerankRequestSchema), []);
  assert.equal(missing(HTTP_ROUTES.transcriptions, TranscriptionFieldsSchema), []);
  for (const [path, ...schemas] of [
    [HTTP_ROUTES.embeddings, EmbeddingsFieldsSchema, EmbedRequestSchema],
    [HTTP_ROUTES.ollamaChat, OllamaChatSchema],
    [HTTP_ROUTES.ollamaGenerate, OllamaGenerateSchema],
    [HTTP_ROUTES.ollamaEmbed, OllamaEmbedSchema],
    [HTTP_ROUTES.ollamaEmbeddings, OllamaEmbedSchema],
    [HTTP_ROUTES.ollamaShow, NamedModelSchema],
    [HTTP_ROUTES.ollamaCopy, CopySchema],
    [HTTP_ROUTES.ollamaCreate, CreateSchema],
    [HTTP_ROUTES.ollamaDelete, NamedModelSchema],
    [HTTP_ROUTES.rerank, RerankFieldsSchema, RerankRequestSchema],
    [HTTP_ROUTES.completions, CompletionSchema, SamplingSchema],
    [HTTP_ROUTES.tokenize, TokenizeSchema],
    [HTTP_ROUTES.detokenize, DetokenizeSchema],
    [HTTP_ROUTES.applyTemplate, ChatCompletionSchema],
    [HTTP_ROUTES.llamaCompletion, LlamaCompletionSchema, SamplingSchema],
    [HTTP_ROUTES.infill, InfillSchema, SamplingSchema],
    [HTTP_ROUTES.rerankV1, RerankFieldsSchema, RerankRequestSchema],
    [HTTP_ROUTES.rerankV2, RerankFieldsSchema, RerankRequestSchema],
  ] as const)
    assert.equal(
      missing(path, ...schemas).filter((name) => !others.includes(name)),
      [],
      path,
    );
});

test('every message with fields that svc.v1.Inference takes has valid examples', () => {
  for (const { type } of METHODS.filter(({ path }) => path.startsWith('/svc.v1.Inference/')))
    assert.ok((VALID[type]?.length ?? 0) > 0, type);
});

test('a case is reproducible from its seed and number', () => {
  const bytes = (index: number): Buffer => requestBytes(new Random(SEED, index));
  for (const index of [0, 1, 4711]) assert.equal(bytes(index), bytes(index));
  assert.not.equal(
    bytes(1).toString('hex') + bytes(2).toString('hex'),
    bytes(3).toString('hex') + bytes(4).toString('hex'),
  );
});

test('a daemon that dies is reported as a finding', async () => {
  const killer: Door = {
    name: 'killer',
    cases: 1,
    isShipped: false,
    open: ({ pid }) =>
      Promise.resolve({
        play: () => {
          process.kill(pid, 'SIGKILL');
          return Promise.resolve(null);
        },
        close: () => undefined,
      }),
  };
  const findings = await fuzzDoor(killer, SEED, 0, 1);
  assert.ok(
    findings.some(({ what }) => what.startsWith('process')),
    JSON.stringify(findings),
  );
});

test.run();

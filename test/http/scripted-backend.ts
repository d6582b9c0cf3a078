/** A backend that the test scripts, and scripts and records for it. */
import { once } from 'node:events';
import type { Backend, GenerateContext } from '../../src/backends/backend.ts';
import type { Caller } from '../../src/protocol/caller.ts';
import type { EmbedEvent, EmbedRequest } from '../../src/protocol/embed.ts';
import type { FinishEvent, GenerateEvent, GenerateRequest } from '../../src/protocol/generate.ts';
import type { ModelRecord, ProviderRecord } from '../../src/protocol/records.ts';
import type { RerankEvent, RerankRequest } from '../../src/protocol/rerank.ts';
import {
  isConversation,
  type DetokenizeEvent,
  type DetokenizeRequest,
  type TokenizeEvent,
  type TokenizeRequest,
} from '../../src/protocol/tokenize.ts';

export type EmbedScript = (request: EmbedRequest, context: GenerateContext) => AsyncIterable<EmbedEvent>;
export type RerankScript = (request: RerankRequest, context: GenerateContext) => AsyncIterable<RerankEvent>;
export type Script = (request: GenerateRequest, context: GenerateContext) => AsyncIterable<GenerateEvent>;

export const START = { type: 'start', model: 'tiny', provider: 'local' } as const;
export const FINISH: FinishEvent = {
  type: 'finish',
  reason: 'stop',
  usage: { input_tokens: 7, output_tokens: 2, cached_tokens: 3 },
  timings: { queue_ms: 1, ttft_ms: 2, total_ms: 3, tokens_per_second: 4 },
};

export function text(value: string): GenerateEvent {
  return { type: 'text', text: value };
}

/** Answers `hello world` at once. */
export async function* hello(): AsyncGenerator<GenerateEvent> {
  yield START;
  yield text('hello ');
  yield text('world');
  yield FINISH;
}

/** Yields for each input a vector of its length and its index. */
export async function* measured({ input }: EmbedRequest): AsyncGenerator<EmbedEvent> {
  yield START;
  for (const [index, each] of input.entries()) {
    yield { type: 'vectors', vectors: [Float32Array.of(each.length, index + 0.1)] };
  }
  yield { ...FINISH, usage: { input_tokens: 7, output_tokens: 0, cached_tokens: 0 } };
}

/** Scores each document by its length. */
export async function* scored({ documents }: RerankRequest): AsyncGenerator<RerankEvent> {
  yield START;
  for (const document of documents) yield { type: 'scores', scores: [document.length] };
  yield { ...FINISH, usage: { input_tokens: 7, output_tokens: 0, cached_tokens: 0 } };
}

/** Resolves with the reason when `signal` is aborted. */
export async function aborted(signal: AbortSignal): Promise<unknown> {
  if (!signal.aborted) await once(signal, 'abort');
  return signal.reason;
}

export const LOCAL: ProviderRecord = {
  name: 'local',
  kind: 'local',
  base_url: null,
  endpoints: [],
  default_model: 'tiny',
  credential: { source: 'none', name: null, present: false },
  enabled: true,
  default_cloud: false,
  state: 'healthy',
  embedding_model: null,
  last_checked_at: null,
  last_error: null,
};

export const TINY: ModelRecord = {
  id: 'tiny',
  aliases: ['small', 'org/tiny'],
  source: 'file',
  path: '/models/tiny.gguf',
  digest: null,
  size_bytes: 1,
  format: 'gguf',
  architecture: 'llama',
  parameters: 1,
  quantization: 'F16',
  context_length: 4096,
  capabilities: ['chat'],
  capabilities_tried: true,
  license: null,
  state: 'installed',
  default: true,
  builtin: false,
  modified_at: '2026-11-01T00:00:00Z',
  loaded: null,
};

export class ScriptedBackend implements Backend {
  readonly name: string;
  script: Script;
  embedScript: EmbedScript = measured;
  rerankScript: RerankScript = scored;
  readonly requests: GenerateRequest[] = [];
  /** Caller of each request, including embeddings. */
  readonly callers: Caller[] = [];
  readonly embedRequests: EmbedRequest[] = [];
  readonly rerankRequests: RerankRequest[] = [];
  readonly tokenizeRequests: TokenizeRequest[] = [];
  readonly detokenizeRequests: DetokenizeRequest[] = [];
  readonly #record: ProviderRecord;

  constructor(script: Script, record: ProviderRecord = LOCAL) {
    this.name = record.name;
    this.script = script;
    this.#record = record;
  }

  generate(request: GenerateRequest, context: GenerateContext): AsyncIterable<GenerateEvent> {
    return this.#sent(this.requests, request, context, () => this.script(request, context));
  }

  embed(request: EmbedRequest, context: GenerateContext): AsyncIterable<EmbedEvent> {
    return this.#sent(this.embedRequests, request, context, () => this.embedScript(request, context));
  }

  rerank(request: RerankRequest, context: GenerateContext): AsyncIterable<RerankEvent> {
    return this.#sent(this.rerankRequests, request, context, () => this.rerankScript(request, context));
  }

  /** As a provider, it sends the request before anything else. */
  async *#sent<Request, Event>(
    list: Request[],
    request: Request,
    context: GenerateContext,
    send: () => AsyncIterable<Event>,
  ): AsyncGenerator<Event> {
    if (this.#record.kind !== 'local') await context.onSend?.();
    list.push(request);
    this.callers.push(context.caller);
    yield* send();
  }

  /** One token for each character: its code. */
  async *tokenize(request: TokenizeRequest, context: GenerateContext): AsyncGenerator<TokenizeEvent> {
    this.tokenizeRequests.push(request);
    this.callers.push(context.caller);
    const text = isConversation(request) ? JSON.stringify(request.messages) : request.text;
    yield START;
    yield { type: 'tokens', tokens: Array.from(text, (each) => each.codePointAt(0) ?? 0), prompt: text };
    yield FINISH;
  }

  async *detokenize(request: DetokenizeRequest, context: GenerateContext): AsyncGenerator<DetokenizeEvent> {
    const { tokens } = request;
    this.detokenizeRequests.push(request);
    this.callers.push(context.caller);
    yield START;
    yield { type: 'text', text: String.fromCodePoint(...tokens) };
    yield FINISH;
  }

  modelNames(): Promise<readonly string[]> {
    return Promise.resolve([TINY.id]);
  }

  record(): ProviderRecord {
    return this.#record;
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  destroy(): Promise<void> {
    return Promise.resolve();
  }
}

/**
 * Client of the daemon for applications and the CLI, with the same requests and answers on the control socket and over
 * HTTP. Every error is a SvcError: an error of the daemon is rethrown as it was there. DAEMON_NOT_RUNNING: no daemon;
 * NOT_READY: it does not answer in time.
 */
import { resolvePaths } from '../home/paths.ts';
import { Collector, ranked } from '../protocol/collect.ts';
import type { EmbedRequest, EmbedResult } from '../protocol/embed.ts';
import { SvcError } from '../protocol/errors.ts';
import type { AnswerEvent, GenerateInput } from '../protocol/generate.ts';
import { decodeVector } from '../protocol/streams/ndjson.ts';
import type { HealthRecord, ModelRecord } from '../protocol/records.ts';
import type { RerankRequest, RerankResult } from '../protocol/rerank.ts';
import { HTTP_ROUTES, type EmbedLine, type GenerateLine, type RerankLine } from '../protocol/routes.ts';
import { targetOf } from './address.ts';
import { Answer } from './answer.ts';
import { Connection } from './connection.ts';

/** The control socket of SVC_SOCKET, SVC_HOME or this user, unless another one or an HTTP address is given. */
export type ClientOptions =
  | { readonly socketPath?: string; readonly baseUrl?: undefined }
  | {
      /** Address of the HTTP listener: `http://127.0.0.1:7117`. */
      readonly baseUrl: string | URL;
      /** Needed if the daemon has API keys. */
      readonly apiKey?: string | undefined;
      readonly socketPath?: undefined;
    };

export interface CallOptions {
  /** Aborting ends the work in the daemon; the call then fails with CANCELLED. */
  readonly signal?: AbortSignal | undefined;
}

/** Requests may be made of what their sender cannot change, such as an answer's tool calls. */
type ReadonlyDeep<Value> = Value extends object ? { readonly [Key in keyof Value]: ReadonlyDeep<Value[Key]> } : Value;

/** A chat. */
export type ChatRequest = ReadonlyDeep<GenerateInput>;

/** A chat, or one prompt of the user. */
export type GenerateCall =
  | (ChatRequest & { readonly prompt?: undefined })
  | (Omit<ChatRequest, 'messages'> & { readonly prompt: string; readonly messages?: undefined });

/** `input`: one or more texts, or token ids of the model's vocabulary. */
export type EmbedCall = Omit<EmbedRequest, 'input'> & { readonly input: string | ReadonlyDeep<EmbedRequest['input']> };

export type RerankCall = ReadonlyDeep<RerankRequest> & {
  /** Number of results. Absent: all. */
  readonly top_n?: number | undefined;
};

export type Message = ChatRequest['messages'][number];
export type ContentPart = Exclude<Message['content'], string>[number];
export type Sampling = NonNullable<ChatRequest['sampling']>;
export type Tool = NonNullable<ChatRequest['tools']>[number];
export type Format = NonNullable<ChatRequest['format']>;
export type Lora = NonNullable<ChatRequest['lora']>[number];

export class Client {
  readonly #connection: Connection;

  /** Connects to nothing yet. Throws INVALID_REQUEST for an invalid option, CONFIG_INVALID for an unusable SVC_HOME. */
  constructor(options: ClientOptions = {}) {
    const { socketPath } = options;
    this.#connection = new Connection(
      options.baseUrl === undefined ? { socketPath: socketPath ?? resolvePaths().socketPath } : targetOf(options),
    );
  }

  /** Returns the answer to a prompt or a chat: its events, or the whole. */
  generate(request: GenerateCall, options: CallOptions = {}): Answer {
    return new Answer(this.#generate(request, options));
  }

  /** As `generate`, for messages. */
  chat(request: ChatRequest, options: CallOptions = {}): Answer {
    return this.generate(request, options);
  }

  /** Resolves with one vector for each input. */
  async embed(request: EmbedCall, options: CallOptions = {}): Promise<EmbedResult> {
    const { input, ...rest } = request;
    const { signal } = options;
    const body = { ...rest, input: typeof input === 'string' ? [input] : input };
    const collector = new Collector();
    const lines = this.#connection.events<EmbedLine>({ path: HTTP_ROUTES.runtimeEmbed, body, signal }, 'finish');
    for await (const line of lines) {
      collector.add(line.type === 'vectors' ? { ...line, vectors: line.vectors.map(decodeVector) } : line);
    }
    return { embeddings: collector.vectors, ...collector.facts };
  }

  /** Resolves with the documents' scores, the most relevant first. */
  async rerank(request: RerankCall, options: CallOptions = {}): Promise<RerankResult> {
    const { top_n, ...body } = request;
    const { signal } = options;
    if (top_n !== undefined && !(Number.isInteger(top_n) && top_n >= 1)) {
      throw new SvcError('INVALID_REQUEST', 'top_n must be a whole number of at least 1', { param: 'top_n' });
    }
    const collector = await Collector.of(
      this.#connection.events<RerankLine>({ path: HTTP_ROUTES.runtimeRerank, body, signal }, 'finish'),
    );
    return { results: ranked(collector.scores, top_n), ...collector.facts };
  }

  /** Resolves with the installed models that the caller may use. */
  async models(options: CallOptions = {}): Promise<readonly ModelRecord[]> {
    const { signal } = options;
    const { models } = await this.#connection.ask<{ models: readonly ModelRecord[] }>({
      path: HTTP_ROUTES.runtimeModels,
      signal,
    });
    return models;
  }

  /** Resolves with the health record, also while the daemon is not ready. */
  async health(options: CallOptions = {}): Promise<HealthRecord> {
    const { signal } = options;
    return await this.#connection.ask<HealthRecord>({ path: HTTP_ROUTES.health, signal }, [503]);
  }

  async *#generate(
    { prompt, messages, ...rest }: GenerateCall,
    { signal }: CallOptions,
  ): AsyncGenerator<AnswerEvent, void, undefined> {
    if ((prompt === undefined) === (messages === undefined)) {
      throw new SvcError('INVALID_REQUEST', 'give either a prompt or messages', { param: 'prompt' });
    }
    const body = { ...rest, messages: messages ?? [{ role: 'user', content: prompt }] };
    yield* this.#connection.events<GenerateLine>({ path: HTTP_ROUTES.runtimeGenerate, body, signal }, 'finish');
  }
}

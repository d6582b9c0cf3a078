/**
 * Backend for one endpoint of a provider.
 *
 *   generate ──► wire.request ──► slots ──► transport ──► provider
 *            ◄── answer ◄── wire.reader ◄── event-stream ◄┘
 *
 * Embeddings and reranking go the same way, with an answer that is one JSON body; a long list of inputs to embed needs
 * several requests.
 *
 * Back-pressure: the body is read only as fast as the caller pulls, so a slow caller slows the provider through the
 * socket. A request is sent once, but again without an optional reasoning effort that was refused; routing decides on
 * retries and fallback. Errors quote the provider's message, with the key removed; it is never logged.
 */
import type { Logger } from '../../log/log.ts';
import { Collector } from '../../protocol/collect.ts';
import type { EmbedEvent, EmbedRequest, VectorsEvent } from '../../protocol/embed.ts';
import { SvcError, type ErrorCode } from '../../protocol/errors.ts';
import type { FinishEvent, GenerateEvent, GenerateRequest, StartEvent } from '../../protocol/generate.ts';
import { given } from '../../protocol/given.ts';
import type { ProviderRecord, ProviderState } from '../../protocol/records.ts';
import { parsedJson } from '../../protocol/foreign-text.ts';
import type { RerankEvent, RerankRequest, ScoresEvent } from '../../protocol/rerank.ts';
import type { Operation, TracedRequest } from '../../protocol/traces/gen-ai.ts';
import { abortable } from '../abortable.ts';
import type { Backend, GenerateContext } from '../backend.ts';
import { notTheApi } from './answer.ts';
import { AttemptSpan, type ProviderEvent } from './attempt-span.ts';
import { batchesOf, joined, readBatch } from './embeddings/batches.ts';
import { answerBytes } from './embeddings/vectors.ts';
import { refuseEmbeddings, refuseRaw, refuseRerank, refuseTokenize } from './local-only.ts';
import { withOwnIds } from './message-parts.ts';
import { AnswerProgress } from './answer-progress.ts';
import type { Provider } from './provider.ts';
import { retryAdvice, toSvcError } from './provider-error.ts';
import { readText } from './reply-text.ts';
import { Runs } from './runs.ts';
import { Slots } from './slots.ts';
import { readStream } from './stream-reading.ts';
import { Transport, type Reply } from './transport.ts';
import type { EmbeddingsApi, WholeAnswer, Wire, WireReader, WireRequest, WireTarget } from './wire.ts';
import { wireOf } from './wires.ts';
import { RefusedEfforts } from './wishes.ts';

export interface CloudBackendOptions {
  readonly provider: Provider;
  readonly log: Logger;
}

const ERROR_BODY_BYTES = 1024 * 1024;
/** Some providers list a thousand models with a page of text each. */
const JSON_BODY_BYTES = 16 * 1024 * 1024;
const MODEL_PAGES = 100;

/** One request to the provider. */
interface Call<Event> {
  readonly operation: Operation;
  readonly request: TracedRequest;
  readonly model: string;
  encode(target: WireTarget): WireRequest;
  /** Yields the events of a reply with a status of 2xx. */
  decode(reply: Reply, progress: AnswerProgress): AsyncIterable<Event>;
}

export class CloudBackend implements Backend {
  readonly #provider: Provider;
  readonly #log: Logger;
  readonly #wire: Wire;
  readonly #transport: Transport;
  readonly #slots: Slots;
  readonly #runs = new Runs();
  readonly #efforts = new RefusedEfforts();
  #isClosing = false;
  #state: ProviderState = 'unknown';
  #checkedAt: string | null = null;
  #lastError: string | null = null;

  constructor({ provider, log }: CloudBackendOptions) {
    this.#provider = provider;
    this.#log = log;
    this.#wire = wireOf(provider.api);
    const { endpoints, isDeclared, idleTimeoutMs } = provider;
    this.#transport = new Transport({ baseUrl: endpoints[0] ?? '', isDeclared, idleTimeoutMs });
    this.#slots = new Slots(provider.concurrency);
  }

  get name(): string {
    return this.#provider.name;
  }

  async *generate(request: GenerateRequest, context: GenerateContext): AsyncGenerator<GenerateEvent, void, undefined> {
    const model = request.model ?? this.#provider.defaultModel;
    if (model === null) {
      throw new SvcError('INVALID_REQUEST', `${this.name} has no default model`, {
        param: 'model',
        hint: `choose one of \`svc provider models ${this.name}\`, or set a default: svc provider set ${this.name} --default-model M`,
      });
    }
    refuseRaw(this.name, request);
    // Providers do not report how much they truncated, and our usage must.
    if (request.truncate === true) {
      throw new SvcError('INVALID_REQUEST', `${this.name}: truncate is supported only for local models`, {
        param: 'truncate',
        hint: 'omit truncate, or use a local model: --local, "route": "local"',
      });
    }
    const asked = { ...request, messages: withOwnIds(request.messages) };
    yield* this.#during(context, (inner) => this.#chat(asked, model, inner));
  }

  /** Yields nothing before the vectors of all inputs have come: until then another attempt may still answer. */
  async *embed(request: EmbedRequest, context: GenerateContext): AsyncGenerator<EmbedEvent, void, undefined> {
    const api = this.#wire.embeddings ?? refuseEmbeddings(this.name);
    const model = request.model ?? this.#provider.embeddingModel ?? this.#nameless('embeddings');
    yield* this.#during(context, (inner) => this.#embed(api, request, model, inner));
  }

  async *rerank(request: RerankRequest, context: GenerateContext): AsyncGenerator<RerankEvent, void, undefined> {
    const api = this.#wire.rerank ?? refuseRerank(this.name);
    const read = (body: unknown): WholeAnswer<ScoresEvent> => api.read(body, request.documents.length);
    const call: Call<RerankEvent> = {
      operation: 'rerank',
      request: {},
      model: request.model ?? this.#nameless('reranking'),
      encode: (target) => api.request(request, target),
      decode: (reply, progress) => this.#atOnce(reply, progress, JSON_BODY_BYTES, read),
    };
    yield* this.#during(context, (inner) => this.#ask(call, inner));
  }

  tokenize(): never {
    return refuseTokenize(this.name);
  }

  detokenize(): never {
    return refuseTokenize(this.name);
  }

  async modelNames(signal: AbortSignal): Promise<readonly string[]> {
    const run = this.#begin(signal);
    try {
      const models = new Set<string>();
      let after: string | null = null;
      for (let page = 0; page < MODEL_PAGES; page++) {
        const listed = await this.#modelPage(after, run.signal);
        for (const name of listed.models) models.add(name);
        if (listed.after === null || listed.after === after) break;
        after = listed.after;
      }
      return [...models];
    } finally {
      run.end();
    }
  }

  record(): ProviderRecord {
    const { name, kind, endpoints, defaultModel, embeddingModel, enabled, isDefaultCloud } = this.#provider;
    const credential = this.#provider.credential();
    const isUnconfigured = endpoints.length === 0 || (credential.source !== 'none' && !credential.present);
    return {
      name,
      kind,
      base_url: endpoints[0] ?? null,
      endpoints,
      default_model: defaultModel,
      embedding_model: embeddingModel,
      credential,
      enabled,
      default_cloud: isDefaultCloud,
      state: isUnconfigured ? 'unconfigured' : this.#state,
      last_checked_at: this.#checkedAt,
      last_error: this.#lastError,
    };
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    await this.#runs.idle();
    await this.#transport.close();
  }

  async destroy(error: SvcError): Promise<void> {
    this.#isClosing = true;
    this.#runs.abort(error);
    await this.#transport.destroy(error);
  }

  #begin(signal: AbortSignal): ReturnType<Runs['begin']> {
    if (this.#isClosing) throw new SvcError('NOT_READY', 'svc is stopping', { retryAfterSeconds: 1 });
    return this.#runs.begin(signal);
  }

  /** Counts `work` as one request in flight. */
  async *#during<Event>(
    context: GenerateContext,
    work: (context: GenerateContext) => AsyncIterable<Event>,
  ): AsyncGenerator<Event, void, undefined> {
    const run = this.#begin(context.signal);
    try {
      yield* work({ ...context, signal: run.signal });
    } finally {
      run.end();
    }
  }

  #nameless(what: 'embeddings' | 'reranking'): never {
    throw new SvcError('INVALID_REQUEST', `${this.name} has no default model for ${what}`, {
      param: 'model',
      hint: `name one of its models for ${what}: ${this.name}/MODEL`,
    });
  }

  async *#embed(
    api: EmbeddingsApi,
    request: EmbedRequest,
    model: string,
    context: GenerateContext,
  ): AsyncGenerator<EmbedEvent, void, undefined> {
    const answers: Collector[] = [];
    for (const batch of batchesOf(request, this.#provider.quirks.embedding_inputs ?? api.inputs)) {
      const length = answers[0]?.vectors[0]?.length;
      const read = (body: unknown): WholeAnswer<VectorsEvent> => readBatch(api, body, batch, length);
      const call: Call<EmbedEvent> = {
        operation: 'embeddings',
        request: {},
        model,
        encode: (target) => api.request(batch, target),
        decode: (reply, progress) => this.#atOnce(reply, progress, answerBytes(batch.input.length), read),
      };
      answers.push(await Collector.of(this.#ask(call, context)));
    }
    yield* joined(answers);
  }

  async *#chat(
    request: GenerateRequest,
    model: string,
    context: GenerateContext,
  ): AsyncGenerator<GenerateEvent, void, undefined> {
    const ask = (asked: GenerateRequest): AsyncGenerator<GenerateEvent, void, undefined> => {
      const encode = (target: WireTarget): WireRequest => this.#wire.request(asked, target);
      const decode: Call<GenerateEvent>['decode'] = (reply, progress) => this.#events(reply, progress);
      return this.#ask({ operation: 'chat', request: asked, model, encode, decode }, context);
    };
    if (request.reasoning_optional !== true) return yield* ask(request);
    const asked = this.#efforts.known(request, model);
    let plain: GenerateRequest | null;
    let hasBegun = false;
    try {
      for await (const event of ask(asked)) {
        hasBegun = true;
        yield event;
      }
      return;
    } catch (error) {
      plain = hasBegun ? null : this.#efforts.after(error, asked);
      if (plain === null) throw error;
    }
    yield* ask(plain);
    this.#efforts.add(asked, model);
  }

  /** Sends one request to the provider, once a slot is free, and yields the events of its answer. */
  async *#ask<Event extends ProviderEvent>(
    call: Call<Event>,
    context: GenerateContext,
  ): AsyncGenerator<Event, void, undefined> {
    const { quirks } = this.#provider;
    const key = await this.#key(context.signal);
    const asked = call.encode({ model: call.model, key, quirks });
    const release = await this.#slots.acquire(context.signal);
    try {
      await context.onSend?.();
      yield* this.#send(asked, key, call, context);
    } finally {
      release();
    }
  }

  async *#send<Event extends ProviderEvent>(
    asked: WireRequest,
    key: string | null,
    { operation, request, model, decode }: Call<Event>,
    { signal, arrivedAt, traceId, span: parent }: GenerateContext,
  ): AsyncGenerator<Event, void, undefined> {
    const progress = new AnswerProgress(this.name, model, { arrivedAt, startedAt: performance.now() });
    const endpoint = this.#provider.endpoints[0] ?? '';
    const span = new AttemptSpan(parent, { operation, request, provider: this.name, model, endpoint });
    let reply: Reply | undefined;
    try {
      reply = await this.#transport.send(asked, { signal, hasKey: key !== null, traceId, trace: span.headers() });
      span.answered(reply.status);
      await this.#refuse(reply, traceId);
      for await (const event of decode(reply, progress)) {
        span.note(event);
        yield event;
      }
    } catch (error) {
      span.failed(SvcError.from(signal.aborted ? signal.reason : error));
      signal.throwIfAborted();
      throw this.#explain(error, key);
    } finally {
      // Without an error if the caller has read enough.
      span.end();
      reply?.body.destroy();
    }
  }

  async *#events(reply: Reply, progress: AnswerProgress): AsyncGenerator<GenerateEvent, void, undefined> {
    const reader = this.#wire.reader(this.#provider.quirks);
    if (isJson(reply)) yield* this.#whole(reply, reader, progress);
    else for await (const events of readStream(reply, reader, progress)) yield* progress.take(events);
    this.#note(null);
    yield* progress.end();
  }

  /** Events of an answer that is one JSON body. */
  async *#atOnce<Content>(
    reply: Reply,
    progress: AnswerProgress,
    limit: number,
    read: (body: unknown) => WholeAnswer<Content>,
  ): AsyncGenerator<StartEvent | Content | FinishEvent, void, undefined> {
    const answer = read(await this.#body(reply, limit));
    this.#note(null);
    yield* progress.whole(answer);
  }

  /** A response that is not a stream: an error, or a whole answer from a server without streaming. */
  async *#whole(
    reply: Reply,
    reader: WireReader,
    progress: AnswerProgress,
  ): AsyncGenerator<GenerateEvent, void, undefined> {
    const text = await readText(reply, JSON_BODY_BYTES);
    const error = this.#wire.error(parsedJson(text));
    if (error !== null) throw toSvcError(error, null);
    yield* progress.take(reader.read({ name: '', data: text }));
    yield* progress.take(reader.end());
  }

  /** The JSON of a reply. Throws the error in it, or PROVIDER_FAILED for one of `limit` bytes or more. */
  async #body(reply: Reply, limit: number): Promise<unknown> {
    const text = await readText(reply, limit);
    if (text.length >= limit) throw notTheApi(`more than ${String(limit)} bytes`);
    const body = parsedJson(text);
    const error = this.#wire.error(body);
    if (error !== null) throw toSvcError(error, null);
    return body;
  }

  async #modelPage(
    after: string | null,
    signal: AbortSignal,
  ): Promise<{ readonly models: readonly string[]; readonly after: string | null }> {
    const key = await this.#key(signal);
    const asked = this.#wire.listModels({ key, quirks: this.#provider.quirks }, after);
    if (asked === null) {
      throw new SvcError('NOT_FOUND', `${this.name} offers no list of models`, {
        hint: "find a model name in the provider's documentation and pass it with -m",
      });
    }
    let reply: Reply | undefined;
    try {
      reply = await this.#transport.send(asked, { signal, hasKey: key !== null, traceId: null });
      await this.#refuse(reply, null);
      const page = this.#wire.readModels(await this.#body(reply, JSON_BODY_BYTES));
      this.#note(null);
      return page;
    } catch (error) {
      signal.throwIfAborted();
      throw this.#explain(error, key);
    } finally {
      reply?.body.destroy();
    }
  }

  async #key(signal: AbortSignal): Promise<string | null> {
    signal.throwIfAborted();
    const key = await abortable(this.#provider.readKey(), signal);
    if (key === null && this.#provider.credential().source !== 'none') {
      throw new SvcError('PROVIDER_AUTH', `no API key for ${this.name}`, { hint: this.#keyHint() });
    }
    return key;
  }

  /** Throws the error for a status other than 2xx. */
  async #refuse(reply: Reply, traceId: string | null): Promise<void> {
    const { status } = reply;
    if (status >= 200 && status < 300) return;
    // No line at the usual level: a client can cause as many as it likes, and a failed request has one of its own.
    this.#log.debug(
      { ...(traceId === null ? {} : { id: traceId }), provider: this.name, status },
      'the provider answered with an error',
    );
    const error = this.#wire.error(parsedJson(await readText(reply, ERROR_BODY_BYTES)));
    throw toSvcError(error, status, retryAdvice(reply.header, Date.now()));
  }

  /** Adds the provider's name and a hint to the error, and removes the key from the quote. */
  #explain(thrown: unknown, key: string | null): SvcError {
    const error = SvcError.from(thrown);
    if (error.code === 'INTERNAL') return error;
    const hint = error.hint ?? this.#hint(error.code);
    const { quote, param, retryAfterSeconds, retryable, cause } = error;
    const explained = new SvcError(error.code, `${this.name}: ${error.message}`, {
      ...(quote === undefined ? {} : { quote: key === null ? quote : quote.replaceAll(key, '[key]') }),
      ...given({ hint, param, retryAfterSeconds, cause }),
      retryable,
    });
    this.#note(explained);
    return explained;
  }

  #hint(code: ErrorCode): string | undefined {
    switch (code) {
      case 'PROVIDER_AUTH':
        return this.#keyHint();
      case 'MODEL_NOT_FOUND':
        return `list its models: svc provider models ${this.name}`;
      case 'CONTEXT_OVERFLOW':
        return 'shorten the prompt, or choose a model with a longer context';
      default:
        return undefined;
    }
  }

  #keyHint(): string {
    const { source, name } = this.#provider.credential();
    const save = `svc provider set ${this.name} --api-key-stdin`;
    return source === 'env' && name !== null ? `set ${name}, or save a key: ${save}` : `save a key: ${save}`;
  }

  /** Updates the provider's health from an answer. A refused request counts as healthy. */
  #note(error: SvcError | null): void {
    if (error !== null && ['CANCELLED', 'NOT_READY', 'TIMEOUT', 'BUSY'].includes(error.code)) return;
    const isIll = error?.code === 'PROVIDER_FAILED' || error?.code === 'PROVIDER_AUTH';
    this.#state = isIll ? 'unhealthy' : 'healthy';
    this.#lastError = isIll ? error.message : null;
    this.#checkedAt = new Date().toISOString();
  }
}

function isJson(reply: Reply): boolean {
  return /^application\/(?:[\w.-]+\+)?json\b/i.test(reply.header('content-type') ?? '');
}

/**
 * Interface of a provider API: encodes requests and decodes answers. Pure: no sockets, no clock, only the key passed
 * in. One implementation per API (chat-completions.ts, responses.ts, messages.ts, gemini.ts); cloud-backend.ts sends
 * and receives.
 */
import type { EmbedRequest, VectorsEvent } from '../../protocol/embed.ts';
import type {
  FinishReason,
  GenerateRequest,
  ReasoningEvent,
  TextEvent,
  ToolCallEvent,
  Usage,
} from '../../protocol/generate.ts';
import type { RerankRequest, ScoresEvent } from '../../protocol/rerank.ts';
import type { Quirks } from './provider.ts';

export interface WireRequest {
  /** Path below the base URL, with query. */
  readonly path: string;
  /** Includes the key. Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** Sent as JSON. null: a GET. */
  readonly body: object | null;
}

export interface WireTarget {
  readonly model: string;
  readonly key: string | null;
  readonly quirks: Quirks;
}

/** One event of a stream of server-sent events. */
export interface ServerEvent {
  /** The `event:` field; empty if absent. */
  readonly name: string;
  readonly data: string;
}

/** Decoded events of an answer. `started`: the model that answers, if the server reports it. */
export type WireEvent =
  | { readonly type: 'started'; readonly model: string }
  | TextEvent
  | ReasoningEvent
  | ToolCallEvent
  | { readonly type: 'usage'; readonly usage: Usage }
  | { readonly type: 'finish'; readonly reason: FinishReason; readonly stop_string?: string };

/**
 * Decodes one answer. `read` is called with each server-sent event and returns its content. `usage` may come more than
 * once (the last counts) and may follow `finish`. Throws toSvcError() for an error inside the stream, and
 * PROVIDER_FAILED for data that violates the API.
 */
export interface WireReader {
  read(event: ServerEvent): readonly WireEvent[];
  /**
   * Call at the end of the stream: closed, `[DONE]`, or nothing more after `finish`. Returns events held back so far.
   * Throws PROVIDER_FAILED if the answer is incomplete.
   */
  end(): readonly WireEvent[];
}

/** A provider's error. Its message may repeat the prompt: shown to the caller, never logged. */
export interface WireError {
  readonly message: string;
  /** The provider's own code or type, for example `rate_limit_exceeded`. null: none. */
  readonly code: string | null;
}

/** An answer that is one JSON body. */
export interface WholeAnswer<Content> {
  /** The model that answers. null: the server does not report it. */
  readonly model: string | null;
  /** A result for each input, in the order of the inputs. */
  readonly content: Content;
  /** null: the server does not report it. */
  readonly usage: Usage | null;
}

/** A part of an API whose requests have a list of inputs and are answered at once, with a result for each. */
export interface WholeApi<Request, Content> {
  /** Throws INVALID_REQUEST, with `param`, for what the API does not support. */
  request(request: Request, target: WireTarget): WireRequest;
  /** `count`: number of inputs. Throws PROVIDER_FAILED for another number of results, or data that violates the API. */
  read(body: unknown, count: number): WholeAnswer<Content>;
}

/** The vectors are as `toVector` makes them. */
export interface EmbeddingsApi extends WholeApi<EmbedRequest, VectorsEvent> {
  /** Maximum number of inputs of one request. */
  readonly inputs: number;
}

export type RerankApi = WholeApi<RerankRequest, ScoresEvent>;

export interface Wire {
  /** Always requests a stream. Throws INVALID_REQUEST, with `param`, for a parameter that the API does not support. */
  request(request: GenerateRequest, target: WireTarget): WireRequest;
  reader(quirks: Quirks): WireReader;
  /** null: the API has no embeddings. */
  readonly embeddings: EmbeddingsApi | null;
  /** null: the API does not rerank. */
  readonly rerank: RerankApi | null;
  /** Error in a body that is not a stream (status other than 2xx, or JSON instead of a stream). null: none found. */
  error(body: unknown): WireError | null;
  /** Requests one page of the model list. `after`: cursor from the page before. null: this server has no list. */
  listModels(target: Omit<WireTarget, 'model'>, after: string | null): WireRequest | null;
  /** `after`: cursor of the next page; null: last page. Throws PROVIDER_FAILED for data that violates the API. */
  readModels(body: unknown): { readonly models: readonly string[]; readonly after: string | null };
}

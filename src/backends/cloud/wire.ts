/**
 * What an API of providers is to us: a way to say a request, and a way to read its answer. Pure: no
 * socket, no clock, no key but the one it is handed. One implementation for each API (chat-completions.ts,
 * responses.ts, messages.ts, gemini.ts); cloud-backend.ts sends and receives.
 */
import type {
  FinishReason,
  GenerateRequest,
  ReasoningEvent,
  TextEvent,
  ToolCallEvent,
  Usage,
} from '../../protocol/generate.ts';
import type { Quirks } from './provider.ts';

export interface WireRequest {
  /** Below the base URL, with its query. */
  readonly path: string;
  /** With the key. Names in lower case. */
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
  /** `event:`; empty where the server names none. */
  readonly name: string;
  readonly data: string;
}

/** What an answer consists of on its way from a provider. `started` tells the model that answers, where it is told. */
export type WireEvent =
  | { readonly type: 'started'; readonly model: string }
  | TextEvent
  | ReasoningEvent
  | ToolCallEvent
  | { readonly type: 'usage'; readonly usage: Usage }
  | { readonly type: 'finish'; readonly reason: FinishReason };

/**
 * Reads one answer. `read` is given every server-sent event in turn and says what it holds. `usage` may
 * come more than once, the last one counts, and may follow `finish`. Throws for an error inside the stream
 * (toSvcError of provider-error.ts) and PROVIDER_FAILED for what is not the API.
 */
export interface WireReader {
  read(event: ServerEvent): readonly WireEvent[];
  /**
   * Nothing more will come: the server has closed the stream, or said `[DONE]`, or has nothing to add to
   * `finish`. What is still to tell. Throws PROVIDER_FAILED when the answer is not complete.
   */
  end(): readonly WireEvent[];
}

/** What a provider says is wrong, in its own words, which may repeat the prompt: shown to the caller, never logged. */
export interface WireError {
  readonly message: string;
  /** The provider's own code or type, `rate_limit_exceeded` for example. null: none. */
  readonly code: string | null;
}

export interface Wire {
  /** Always streams. Throws INVALID_REQUEST, with `param`, for a wish that this API has no words for. */
  request(request: GenerateRequest, target: WireTarget): WireRequest;
  reader(quirks: Quirks): WireReader;
  /** The body of an answer that is no stream (a status that is not 2xx, or JSON where a stream was due). null: no error that we know. */
  error(body: unknown): WireError | null;
  /** Asks for the models, one page. `after`: what the page before ended with. null: this server has no list. */
  listModels(target: Omit<WireTarget, 'model'>, after: string | null): WireRequest | null;
  /** `after`: where the next page begins; null: this was the last. Throws PROVIDER_FAILED for what is not the API. */
  readModels(body: unknown): { readonly models: readonly string[]; readonly after: string | null };
}

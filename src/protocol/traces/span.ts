/**
 * Spans as the parts of the daemon see them. A span goes with its request (GenerateContext). If traces are off, or the
 * request is not sampled, every method does nothing, and only the headers are passed on.
 */
import { parseTraceContext, traceHeaders, type TraceContext, type TraceHeaders } from './context.ts';

export type AttributeValue = string | number | boolean | readonly string[];
/** By name; undefined values are left out. None may hold a prompt, an answer, a key or other text of a client. */
export type Attributes = Readonly<Record<string, AttributeValue | undefined>>;

/** `server`: a request that was received; `client`: one that was sent; `internal`: a part of the work. */
export type SpanKind = 'internal' | 'server' | 'client';

export interface SpanEnd {
  /** Code of the error that ended it, for `error.type` if the span has none yet. Absent: none. */
  readonly error?: string;
  /** False: an error that is the client's own. Default true. */
  readonly isFailure?: boolean;
  /** `performance.now()`. Absent: now. */
  readonly at?: number;
}

export interface Span {
  readonly traceId: string;
  /** Headers for requests that are made for this span; empty if there is nothing to pass on. */
  headers(): Record<string, string>;
  /** Begins a span below this one. `at`: `performance.now()`, if it began earlier. */
  child(name: string, kind: SpanKind, attributes?: Attributes, at?: number): Span;
  rename(name: string): void;
  set(attributes: Attributes): void;
  /** Adds to a number; for a request with several answers. */
  add(name: string, amount: number): void;
  /** Appends to a list; for a request with several answers. */
  append(name: string, text: string): void;
  /** Only the first call counts. */
  end(end?: SpanEnd): void;
}

export interface SpanStart {
  /** Headers of the client, as received; they name the parent span. */
  readonly headers: TraceHeaders;
  /** Id of the request: the trace id if the client sent none. */
  readonly requestId: string;
  readonly name: string;
  /** Absent: `server`. */
  readonly kind?: SpanKind;
  readonly attributes: Attributes;
}

export interface Tracer {
  /** Begins the span of a request that was received, or of work for one that may have ended. Never throws. */
  begin(start: SpanStart): Span;
}

/** A span that is not recorded; its descendants are not either. */
export class IdleSpan implements Span {
  readonly traceId: string;
  readonly #context: TraceContext | null;

  /** `context`: sent with outgoing requests. null: they carry no context, and the receiver decides by itself. */
  constructor(traceId: string, context: TraceContext | null) {
    this.traceId = traceId;
    this.#context = context;
  }

  headers(): Record<string, string> {
    return this.#context === null ? {} : traceHeaders(this.#context);
  }

  child(): Span {
    return this;
  }

  rename(): void {
    // Not recorded.
  }

  set(): void {
    // Not recorded.
  }

  add(): void {
    // Not recorded.
  }

  append(): void {
    // Not recorded.
  }

  end(): void {
    // Not recorded.
  }
}

/** Records nothing, and passes on the client's context unchanged. */
export const NO_TRACES: Tracer = {
  begin: ({ headers, requestId }) => {
    const parent = parseTraceContext(headers);
    return new IdleSpan(parent?.traceId ?? requestId, parent);
  },
};

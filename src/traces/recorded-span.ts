/** A span that is recorded, and passed on when it ends. */
import { randomBytes } from 'node:crypto';
import { traceHeaders, type TraceContext } from '../protocol/traces/context.ts';
import type { Attributes, AttributeValue, Span, SpanEnd, SpanKind } from '../protocol/traces/span.ts';

/** A span that has ended. */
export interface EndedSpan {
  readonly context: TraceContext;
  /** null: the trace begins with this span. */
  readonly parentId: string | null;
  readonly name: string;
  readonly kind: SpanKind;
  /** Microseconds since 1970. */
  readonly startedAt: number;
  readonly endedAt: number;
  readonly attributes: ReadonlyMap<string, AttributeValue>;
  /** True: the operation failed, and not through its caller's fault. */
  readonly hasFailed: boolean;
}

interface SpanOptions {
  /** Without a span id of its own yet: of the parent, or of a trace that begins. */
  readonly trace: Pick<TraceContext, 'traceId' | 'state'>;
  readonly parentId: string | null;
  readonly name: string;
  readonly kind: SpanKind;
  readonly attributes: Attributes;
  /** `performance.now()`. */
  readonly at: number;
  /** Milliseconds since 1970 at `performance.now()` 0; one value for a trace, so that its times fit together. */
  readonly epochMs: number;
  readonly onEnd: (span: EndedSpan) => void;
}

export class RecordedSpan implements Span {
  readonly #options: SpanOptions;
  readonly #context: TraceContext;
  readonly #attributes = new Map<string, AttributeValue>();
  #name: string;
  #hasEnded = false;

  constructor(options: SpanOptions) {
    this.#options = options;
    const { traceId, state } = options.trace;
    this.#context = { traceId, spanId: randomBytes(8).toString('hex'), sampled: true, state };
    this.#name = options.name;
    this.set(options.attributes);
  }

  get traceId(): string {
    return this.#context.traceId;
  }

  headers(): Record<string, string> {
    return traceHeaders(this.#context);
  }

  child(name: string, kind: SpanKind, attributes: Attributes = {}, at: number = performance.now()): Span {
    const { epochMs, onEnd } = this.#options;
    const { spanId } = this.#context;
    return new RecordedSpan({ trace: this.#context, parentId: spanId, name, kind, attributes, at, epochMs, onEnd });
  }

  rename(name: string): void {
    this.#name = name;
  }

  set(attributes: Attributes): void {
    for (const [name, value] of Object.entries(attributes)) {
      if (value !== undefined) this.#attributes.set(name, value);
    }
  }

  add(name: string, amount: number): void {
    const before = this.#attributes.get(name);
    this.#attributes.set(name, (typeof before === 'number' ? before : 0) + amount);
  }

  append(name: string, text: string): void {
    const before = this.#attributes.get(name);
    this.#attributes.set(name, [...(Array.isArray(before) ? (before as string[]) : []), text]);
  }

  end({ error, isFailure = true, at = performance.now() }: SpanEnd = {}): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    if (error !== undefined && !this.#attributes.has('error.type')) this.set({ 'error.type': error });
    const { parentId, kind, at: startedAt, epochMs, onEnd } = this.#options;
    const micros = (time: number): number => Math.round((epochMs + time) * 1000);
    onEnd({
      context: this.#context,
      parentId,
      name: this.#name,
      kind,
      startedAt: micros(startedAt),
      endedAt: micros(Math.max(startedAt, at)),
      attributes: this.#attributes,
      hasFailed: error !== undefined && isFailure,
    });
  }
}

/** Begins the spans of received requests, and decides which traces are recorded. */
import { parseTraceContext } from '../protocol/traces/context.ts';
import { IdleSpan, type Span, type SpanStart, type Tracer } from '../protocol/traces/span.ts';
import { RecordedSpan, type EndedSpan } from './recorded-span.ts';

/** Last digits of a trace id: random in every version of the standard, and exact in a number. */
const RANDOM_DIGITS = 13;

export class RecordingTracer implements Tracer {
  readonly #ratio: number;
  readonly #onEnd: (span: EndedSpan) => void;

  /** `ratio`: share of the traces that are recorded, 0 to 1, if the client has not decided. */
  constructor(ratio: number, onEnd: (span: EndedSpan) => void) {
    this.#ratio = ratio;
    this.#onEnd = onEnd;
  }

  begin({ headers, requestId, name, kind = 'server', attributes }: SpanStart): Span {
    const parent = parseTraceContext(headers);
    const traceId = parent?.traceId ?? requestId;
    if (!(parent?.sampled ?? this.#isChosen(traceId))) {
      // The servers behind this one do not record a part of a trace that has no beginning.
      const notRecorded = parent ?? { traceId, spanId: requestId.slice(0, 16), sampled: false, state: null };
      return new IdleSpan(traceId, notRecorded);
    }
    const at = performance.now();
    return new RecordedSpan({
      trace: { traceId, state: parent?.state ?? null },
      parentId: parent?.spanId ?? null,
      name,
      kind,
      attributes,
      at,
      epochMs: Date.now() - at,
      onEnd: this.#onEnd,
    });
  }

  #isChosen(traceId: string): boolean {
    return parseInt(traceId.slice(-RANDOM_DIGITS), 16) / 16 ** RANDOM_DIGITS < this.#ratio;
  }
}

/**
 * Sends ended spans to a collector, in batches, beside the requests and never in their way.
 *
 *   add ──► queue (bounded) ──► batch ──► collector
 *             │ full: the new span is dropped     │ fails: the same batch again, later
 *
 * One export is under way at a time. A batch waits until it is full or until some seconds have passed. If the collector
 * cannot take it now, it is kept, and the wait doubles. If the collector refuses it, it is dropped. Dropped spans are
 * counted; the log has one line when exports begin to fail, then at most one every ten minutes.
 */
import { within } from '../files/within.ts';
import type { Delivery } from './collector.ts';
import type { EndedSpan } from './recorded-span.ts';

export interface ExporterOptions {
  /** Never rejects. */
  send(spans: readonly EndedSpan[], signal: AbortSignal): Promise<Delivery>;
  /** Called when exports fail, and when they work again (null). */
  onState(failure: string | null): void;
  readonly limits?: Partial<ExporterLimits>;
}

export interface ExporterLimits {
  /** Spans that wait. */
  readonly queued: number;
  readonly batch: number;
  /** Time that a span waits for others. */
  readonly delayMs: number;
  readonly firstRetryMs: number;
  readonly mostRetryMs: number;
  /** Time between two calls of `onState` with a failure. */
  readonly silenceMs: number;
}

const LIMITS: ExporterLimits = {
  queued: 2048,
  batch: 512,
  delayMs: 2000,
  firstRetryMs: 1000,
  mostRetryMs: 60_000,
  silenceMs: 600_000,
};

export interface SpanCounts {
  readonly exported: number;
  readonly dropped: number;
}

export class Exporter {
  readonly #options: ExporterOptions;
  readonly #limits: ExporterLimits;
  readonly #closing = new AbortController();
  #queue: EndedSpan[] = [];
  #exported = 0;
  #dropped = 0;
  #timer: NodeJS.Timeout | null = null;
  #underWay: Promise<void> | null = null;
  /** Failed exports in a row. */
  #failures = 0;
  #toldAt = -Infinity;
  #isClosed = false;

  constructor(options: ExporterOptions) {
    this.#options = options;
    this.#limits = { ...LIMITS, ...options.limits };
  }

  /** Since the daemon started. */
  get counts(): SpanCounts {
    return { exported: this.#exported, dropped: this.#dropped };
  }

  add(span: EndedSpan): void {
    const { queued, batch, delayMs } = this.#limits;
    if (this.#isClosed || this.#queue.length >= queued) {
      this.#dropped += 1;
      return;
    }
    this.#queue.push(span);
    if (this.#underWay !== null) return;
    if (this.#queue.length === batch && this.#failures === 0) this.#schedule(0);
    else if (this.#timer === null) this.#schedule(delayMs);
  }

  /** Sends what waits, for at most `limitMs`; the rest is dropped. Idempotent. */
  async close(limitMs: number): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#stopTimer();
    await within(limitMs, this.#flush());
    this.#closing.abort();
    this.#dropped += this.#queue.length;
    this.#queue = [];
  }

  async #flush(): Promise<void> {
    await this.#underWay;
    while (this.#queue.length > 0 && !this.#closing.signal.aborted) {
      if ((await this.#exportBatch()).type === 'retry') return;
    }
  }

  #schedule(ms: number): void {
    this.#stopTimer();
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.#underWay = this.#exportAndGoOn();
    }, ms).unref();
  }

  #stopTimer(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }

  async #exportAndGoOn(): Promise<void> {
    const { batch, delayMs } = this.#limits;
    const delivery = await this.#exportBatch();
    this.#underWay = null;
    if (this.#isClosed || this.#queue.length === 0) return;
    if (delivery.type === 'retry') this.#schedule(delivery.afterMs ?? this.#backoff());
    else this.#schedule(this.#queue.length >= batch ? 0 : delayMs);
  }

  async #exportBatch(): Promise<Delivery> {
    const spans = this.#queue.slice(0, this.#limits.batch);
    const delivery = await this.#options.send(spans, this.#closing.signal);
    if (delivery.type !== 'retry') this.#queue = this.#queue.slice(spans.length);
    this.#count(delivery, spans.length);
    return delivery;
  }

  #count(delivery: Delivery, spans: number): void {
    if (delivery.type === 'accepted') {
      const rejected = Math.min(delivery.rejectedSpans, spans);
      this.#exported += spans - rejected;
      this.#dropped += rejected;
      if (this.#toldAt !== -Infinity && this.#failures > 0) this.#options.onState(null);
      this.#failures = 0;
      return;
    }
    if (delivery.type === 'refused') this.#dropped += spans;
    this.#failures += 1;
    const now = performance.now();
    if (now - this.#toldAt < this.#limits.silenceMs) return;
    this.#toldAt = now;
    this.#options.onState(delivery.reason);
  }

  /** Jittered, so that daemons that lost their collector together do not return together. */
  #backoff(): number {
    const { firstRetryMs, mostRetryMs } = this.#limits;
    return Math.min(firstRetryMs * 2 ** (this.#failures - 1), mostRetryMs) * (0.5 + Math.random() / 2);
  }
}

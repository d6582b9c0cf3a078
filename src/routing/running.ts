/** The requests that are being answered: to be shown, measured while they run, and cancelled by an administrator. */
import type { GenerateContext } from '../backends/backend.ts';
import { SvcError } from '../protocol/errors.ts';
import type { StartEvent } from '../protocol/generate.ts';
import type { LiveRequest } from '../protocol/live.ts';
import type { BackendEvent } from './attempts.ts';
import { sentBytes, tokensIn } from './estimate.ts';

/** When an answer began. */
export interface FirstToken {
  readonly provider: string;
  readonly model: string;
  /** `performance.now()`. */
  readonly at: number;
  /** Time since the request arrived. */
  readonly ms: number;
}

/** Sums since the daemon started. */
export interface Pieces {
  readonly requests: number;
  readonly pieces: number;
}

/** First tokens kept: of some seconds, at any load. */
const MOST_FIRSTS = 1024;
const NONE: Pieces = { requests: 0, pieces: 0 };

export class Running {
  readonly #requests = new Set<RunningRequest>();
  readonly #firsts: FirstToken[] = [];
  /** By provider: names of the config, so they are few. */
  readonly #sums = new Map<string, Pieces>();

  /** Adds a request; the caller ends it with `leave`. */
  enter(kind: LiveRequest['kind'], model: string | undefined, context: GenerateContext): RunningRequest {
    const request: RunningRequest = new RunningRequest(kind, model, context, {
      onFirst: (first) => this.#noteFirst(first),
      onPiece: (provider) => this.#add(provider, { requests: 0, pieces: 1 }),
      onLeave: () => void this.#requests.delete(request),
    });
    this.#requests.add(request);
    return request;
  }

  /** The oldest `most` requests. */
  list(most: number): LiveRequest[] {
    return [...this.#requests].slice(0, most).map((request) => request.record());
  }

  /** Ends the work on all requests with this id, with CANCELLED. Returns false if there is none. */
  cancel(id: string): boolean {
    const found = [...this.#requests].filter((request) => request.id === id);
    for (const request of found) request.end(new SvcError('CANCELLED', 'an administrator cancelled the request'));
    return found.length > 0;
  }

  /** Ends the work on all requests with `error`. */
  endAll(error: SvcError): void {
    for (const request of this.#requests) request.end(error);
  }

  /** Answers that began after `since` (`performance.now()`). */
  firstsAfter(since: number): readonly FirstToken[] {
    return this.#firsts.filter(({ at }) => at > since);
  }

  sumsOf(provider: string): Pieces {
    return this.#sums.get(provider) ?? NONE;
  }

  #noteFirst(first: FirstToken): void {
    this.#firsts.push(first);
    if (this.#firsts.length > MOST_FIRSTS) this.#firsts.shift();
    this.#add(first.provider, { requests: 1, pieces: 0 });
  }

  #add(provider: string, more: Pieces): void {
    const { requests, pieces } = this.sumsOf(provider);
    this.#sums.set(provider, { requests: requests + more.requests, pieces: pieces + more.pieces });
  }
}

interface Events {
  onFirst(first: FirstToken): void;
  onPiece(provider: string): void;
  onLeave(): void;
}

export class RunningRequest {
  readonly #kind: LiveRequest['kind'];
  readonly #asked: string | undefined;
  readonly #context: GenerateContext;
  readonly #events: Events;
  readonly #started = new Date().toISOString();
  readonly #ending = new AbortController();
  #provider: string | null = null;
  #start: StartEvent | null = null;
  #pieces = 0;
  #bytes = 0;
  #firstTextMs: number | null = null;

  constructor(kind: LiveRequest['kind'], asked: string | undefined, context: GenerateContext, events: Events) {
    this.#kind = kind;
    this.#asked = asked;
    this.#context = context;
    this.#events = events;
  }

  get id(): string {
    return this.#context.traceId;
  }

  /** The cloud provider that was asked last, and has not failed. null: none. */
  get provider(): string | null {
    return this.#provider;
  }

  /** null: no backend has started on the request. */
  get start(): StartEvent | null {
    return this.#start;
  }

  /** Estimate of the tokens that were sent: at least one for each piece. */
  get outputTokens(): number {
    return this.#kind === 'generation' ? Math.max(this.#pieces, tokensIn(this.#bytes)) : 0;
  }

  /** Time from the arrival of the request to the first piece. null: none was sent. */
  get firstTextMs(): number | null {
    return this.#firstTextMs;
  }

  /** Aborted by `end`. */
  get signal(): AbortSignal {
    return this.#ending.signal;
  }

  end(reason: SvcError): void {
    this.#ending.abort(reason);
  }

  asked(provider: string): void {
    this.#provider = provider;
  }

  /** A backend has started on the request. null: it failed to answer. */
  taken(start: StartEvent | null): void {
    this.#start = start;
    if (start === null) this.#provider = null;
  }

  /** A piece of the answer is sent. REQUIRES: `taken`. */
  piece(event: BackendEvent): void {
    this.#pieces += 1;
    this.#bytes += sentBytes(event);
    const at = performance.now();
    const isFirst = this.#pieces === 1;
    if (isFirst) this.#firstTextMs = at - this.#context.arrivedAt;
    if (this.#start === null || this.#kind !== 'generation') return;
    const { provider, model } = this.#start;
    if (isFirst) this.#events.onFirst({ provider, model, at, ms: at - this.#context.arrivedAt });
    this.#events.onPiece(provider);
  }

  leave(): void {
    this.#events.onLeave();
  }

  record(): LiveRequest {
    return {
      id: this.id,
      kind: this.#kind,
      model: this.#start?.model ?? this.#asked ?? null,
      provider: this.#start?.provider ?? null,
      key: this.#context.caller.name,
      started: this.#started,
      state: this.#start === null ? 'waiting' : 'running',
      output_tokens: this.#kind === 'generation' ? this.#pieces : 0,
    };
  }
}

/**
 * A running background response: gets its answer, writes the journal, and sends events to its readers.
 *
 * An interruption does not end the answer: it is requested again, with the tokens so far (`Continuation`). A local
 * model continues from there. A provider cannot, so its answer fails if any of it has been sent.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Caller } from '../../protocol/caller.ts';
import { SvcError } from '../../protocol/errors.ts';
import type { AnswerEvent, GenerateRequest, StartEvent } from '../../protocol/generate.ts';
import { toConversation } from '../../protocol/openai/responses/input.ts';
import { inTheirWords } from '../../protocol/openai/responses/request.ts';
import type { ResponseRecord, StoredResponse } from '../../protocol/openai/responses/response.ts';
import type { Span } from '../../protocol/traces/span.ts';
import { isLast, type Asked, type Entry, type Journal, type Story } from './journal.ts';
import { Remainder } from './remainder.ts';
import { endSpan } from './run-span.ts';
import { Transcript } from './transcript.ts';

/** Has a request answered, as the router does. */
export type Route = (
  request: GenerateRequest,
  context: {
    readonly traceId: string;
    readonly span: Span;
    readonly caller: Caller;
    readonly signal: AbortSignal;
    readonly arrivedAt: number;
  },
) => AsyncIterable<AnswerEvent>;

export interface RunOptions {
  readonly journal: Journal;
  readonly route: Route;
  /** Ended by the run. */
  readonly span: Span;
  /** Called with the complete response, before its last event is sent. Never rejects. */
  keep(record: StoredResponse): Promise<void>;
}

/** Maximum attempts in a row without a new token; a crash of the daemon counts, too. */
const MOST_VAIN_ATTEMPTS = 5;
/** Maximum events that wait for the journal; then the answer waits. */
const MOST_UNWRITTEN = 256;
/** Characters after which a reader gets no further event at once; it may be slow. */
const MOST_TOGETHER = 64 * 1024;
/** Pause before the next attempt, unless the error names one. */
const PAUSE_MS = 1000;
/** Maximum pause between attempts: capacity may return earlier than the error says, and Node's timers have a limit. */
const LONGEST_PAUSE_MS = 3_600_000;

export class BackgroundRun {
  readonly #asked: Asked;
  readonly #entries: Entry[];
  readonly #transcript: Transcript;
  readonly #options: RunOptions;
  readonly #ending = new AbortController();
  readonly #listeners = new Set<() => void>();
  readonly #unwritten: Entry[] = [];
  /** Resolves when nothing is unwritten, or the journal has failed. */
  #writing: Promise<void> | null = null;
  #isCancelled = false;
  #journalError: SvcError | null = null;
  /** Attempts since the last one that brought a token. */
  #vain: number;
  #toldBefore: number;
  #finished: Promise<void> | null = null;

  /** `story`: what the journal holds. Throws INVALID_REQUEST if this version cannot answer it. */
  constructor(story: Story, options: RunOptions) {
    this.#asked = story.asked;
    this.#entries = [...story.entries];
    this.#transcript = Transcript.of(story);
    this.#options = options;
    this.#toldBefore = this.#told.length;
    this.#vain = vainIn(story.entries);
  }

  get id(): string {
    return this.#asked.id;
  }

  get owner(): string {
    return this.#asked.owner;
  }

  /** Size of its journal, about as much as it holds in memory. */
  get bytes(): number {
    return this.#options.journal.bytes;
  }

  get response(): ResponseRecord {
    return this.#transcript.response;
  }

  /** The response so far, as it would be stored. */
  get record(): StoredResponse {
    return this.#transcript.record;
  }

  /** Resolves when the response has ended, or the run was left. Never rejects. */
  get finished(): Promise<void> {
    return (this.#finished ??= this.#run());
  }

  /** Resolves when the response has ended. */
  async cancel(): Promise<void> {
    this.#isCancelled = true;
    this.#ending.abort(new SvcError('CANCELLED', 'the response was cancelled'));
    await this.finished;
  }

  /** Stops work; a later daemon continues. Resolves when the journal is closed. */
  async leave(): Promise<void> {
    this.#ending.abort(new SvcError('NOT_READY', 'svc is stopping; the response continues when it is started again'));
    await this.finished;
  }

  /**
   * Encoded events after the one with this sequence number, until the last; those that are ready come together. Throws
   * NOT_READY when the run is left.
   */
  async *eventsAfter(sequence: number, signal: AbortSignal): AsyncGenerator<readonly string[], void> {
    const { events } = this.#transcript;
    for (let next = sequence + 1; ;) {
      while (next >= events.length) {
        if (this.#transcript.ended) return;
        if (this.#isLeft) this.#ending.signal.throwIfAborted();
        await this.#change(signal);
      }
      const ready: string[] = [];
      for (let length = 0; length < MOST_TOGETHER && next < events.length; next++) {
        const event = events[next] as string;
        ready.push(event);
        length += event.length;
      }
      yield ready;
    }
  }

  /** A journal that cannot be written ends the run: its readers learn why, and a later daemon tries again. */
  async #run(): Promise<void> {
    try {
      if (this.#transcript.ended) await this.#keep();
      while (!this.#transcript.ended && !this.#isLeft) {
        try {
          await this.#attempt();
        } catch (error) {
          await this.#cutOff(SvcError.from(error));
        }
      }
    } catch (error) {
      const failure = SvcError.from(error);
      this.#options.span.end({ error: failure.code });
      this.#transcript.add({ at: Date.now(), error: failure.toRecord() });
    } finally {
      endSpan(this.#options.span, this.#entries.at(-1));
      await this.#options.journal.close().catch(() => undefined);
      this.#tell();
    }
  }

  get #isLeft(): boolean {
    return this.#ending.signal.aborted && !this.#isCancelled;
  }

  /** Resolves at the end of the answer. Rejects with what has cut it off. */
  async #attempt(): Promise<void> {
    this.#ending.signal.throwIfAborted();
    this.#checkResumable();
    const { items, id } = this.#asked;
    const { call } = this.#transcript;
    const { messages, places } = toConversation(call.instructions, items);
    const remainder = new Remainder(this.#told);
    const { route, span } = this.#options;
    const context = {
      traceId: id,
      span,
      caller: this.#caller,
      signal: this.#ending.signal,
      arrivedAt: performance.now(),
    };
    try {
      for await (const event of route(this.#request(messages), context)) {
        if (event.type === 'start') this.#checkModel(event);
        const rest = remainder.of(event);
        if (rest !== null) await this.#add({ at: Date.now(), event: rest });
      }
    } catch (error) {
      throw inTheirWords(error, call, places);
    }
  }

  #request(messages: GenerateRequest['messages']): GenerateRequest {
    const { seed } = this.#asked;
    const tokens = this.#told.flatMap((event) => ('tokens' in event ? (event.tokens ?? []) : []));
    const start = this.#start;
    // A policy must not choose again.
    const same = start?.provider === 'local' ? { model: start.model, route: 'local' } : {};
    return { ...this.#transcript.call.request, messages, continuation: { seed, tokens }, ...same };
  }

  /**
   * Caller of the next attempt. A begun answer is requested by its model, which the key's list may lack if the first
   * attempt named a policy. So the list is not checked again; quotas are.
   */
  get #caller(): Caller {
    const { caller } = this.#asked;
    if (caller.limits === undefined || this.#start?.provider !== 'local') return caller;
    const { models: _, ...quota } = caller.limits;
    return { ...caller, limits: quota };
  }

  /** Decides whether a further attempt follows. Rejects if the journal fails. */
  async #cutOff(error: SvcError): Promise<void> {
    await this.#writing;
    if (this.#journalError?.code === 'REQUEST_TOO_LARGE') {
      // The journal has room for the last line, but no later daemon could write more of the answer.
      const record = this.#journalError.toRecord();
      this.#journalError = null;
      await this.#add({ at: Date.now(), error: record });
      return;
    }
    if (this.#journalError !== null) throw this.#journalError;
    if (this.#isLeft) return;
    if (this.#isCancelled) {
      await this.#add({ at: Date.now(), cancelled: true });
      return;
    }
    if (!this.#mayTryAgain(error)) {
      await this.#add({ at: Date.now(), error: error.toRecord() });
      return;
    }
    const pauseMs = (error.retryAfterSeconds ?? 0) * 1000 || PAUSE_MS;
    await sleep(Math.min(pauseMs, LONGEST_PAUSE_MS), undefined, { signal: this.#ending.signal }).catch(() => undefined);
  }

  #mayTryAgain(error: SvcError): boolean {
    // A full disk, for example, may keep the usage of a key with a quota from being counted for a moment.
    if (!error.retryable && error.code !== 'CANNOT_WRITE') return false;
    if (!this.#isResumable) return false;
    // It waits like any other request.
    if (error.code === 'BUSY' || error.code === 'NOT_READY') return true;
    const { length } = this.#told;
    if (length > this.#toldBefore) this.#vain = 0;
    this.#toldBefore = length;
    this.#vain += 1;
    return this.#vain < MOST_VAIN_ATTEMPTS;
  }

  /** False if part of a provider's answer was sent: a further attempt would bring another answer. */
  get #isResumable(): boolean {
    const hasContent = this.#told.some(({ type }) => type !== 'route' && type !== 'start');
    return !hasContent || this.#start?.provider === 'local';
  }

  /** Throws PROVIDER_FAILED for an answer that an earlier daemon began and this one cannot continue. */
  #checkResumable(): void {
    if (this.#isResumable) return;
    const provider = this.#start?.provider ?? 'a provider';
    const what = `the answer of ${provider} was interrupted, and providers cannot continue an answer`;
    throw new SvcError('PROVIDER_FAILED', what, { hint: 'ask again for a new response', retryable: false });
  }

  /** Throws MODEL_NOT_FOUND if another model would continue the answer. */
  #checkModel({ provider, model }: StartEvent): void {
    const start = this.#start;
    if (start === undefined || (start.provider === provider && start.model === model)) return;
    throw new SvcError('MODEL_NOT_FOUND', `${start.model}, which began this answer, is gone`, {
      hint: 'ask again for a new response',
    });
  }

  get #told(): AnswerEvent[] {
    return this.#entries.flatMap((entry) => ('event' in entry ? entry.event : []));
  }

  get #start(): StartEvent | undefined {
    return this.#told.find((event) => event.type === 'start');
  }

  /**
   * Resolves when the next entry may be added; the last entry of an answer has then been written and sent. Rejects if
   * the journal fails.
   */
  async #add(entry: Entry): Promise<void> {
    if (this.#journalError !== null) throw this.#journalError;
    this.#unwritten.push(entry);
    this.#writing ??= this.#write();
    if (this.#unwritten.length >= MOST_UNWRITTEN || isLast(entry)) await this.#written();
  }

  async #written(): Promise<void> {
    await this.#writing;
    if (this.#journalError !== null) throw this.#journalError;
  }

  /**
   * Writes entries to the journal, then sends them. Entries that come during a write are written together. The response
   * is stored before its last event is sent.
   */
  async #write(): Promise<void> {
    try {
      while (this.#unwritten.length > 0) {
        const entries = this.#unwritten.splice(0);
        await this.#options.journal.append(entries);
        for (const entry of entries) {
          this.#entries.push(entry);
          this.#transcript.add(entry);
        }
        if (this.#transcript.ended) await this.#keep();
        this.#tell();
      }
    } catch (error) {
      this.#journalError = SvcError.from(error);
      // Later entries are dropped, too: after lost ones they would leave a gap in the journal.
      this.#unwritten.length = 0;
    } finally {
      this.#writing = null;
    }
  }

  async #keep(): Promise<void> {
    await this.#options.keep(this.#transcript.record);
  }

  /** Resolves when there may be new events. Rejects when the reader goes away. */
  async #change(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    let wake = (): void => undefined;
    await new Promise<void>((resolve) => {
      wake = resolve;
      this.#listeners.add(wake);
      signal.addEventListener('abort', wake);
    });
    this.#listeners.delete(wake);
    signal.removeEventListener('abort', wake);
    signal.throwIfAborted();
  }

  #tell(): void {
    for (const wake of [...this.#listeners]) wake();
  }
}

/** How many daemons in a row have taken up the answer without adding to it. */
function vainIn(entries: readonly Entry[]): number {
  const last = entries.findLastIndex((entry) => !('taken_up' in entry));
  return entries.length - 1 - last;
}

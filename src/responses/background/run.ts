/**
 * One background response while it is answered: asks for the answer, appends it to the journal, and asks again where an
 * engine or the daemon has ended in the middle.
 *
 * A local model goes on behind the tokens of the journal. A provider cannot: before its first text it is asked again,
 * after that the response fails.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Caller } from '../../protocol/caller.ts';
import { SvcError } from '../../protocol/errors.ts';
import type { FinishEvent, GenerateEvent, GenerateRequest, RouteEvent, StartEvent } from '../../protocol/generate.ts';
import { toConversation, type Conversation } from '../../protocol/openai/responses/input.ts';
import { storedItems } from '../../protocol/openai/responses/items.ts';
import { inTheirWords, parseResponses, type ResponsesCall } from '../../protocol/openai/responses/request.ts';
import type { StoredResponse } from '../../protocol/openai/responses/response.ts';
import type { EndLine, GroupLine, Journal, JournalLine, RequestLine } from './journal.ts';
import { isContent, Sent } from './sent.ts';
import { Telling } from './telling.ts';

export interface RunContext {
  readonly traceId: string;
  readonly caller: Caller;
  readonly signal: AbortSignal;
  readonly arrivedAt: number;
}

export type Route = (
  request: GenerateRequest,
  context: RunContext,
) => AsyncIterable<RouteEvent | GenerateEvent, void, undefined>;

export interface RunParts {
  readonly request: RequestLine;
  readonly journal: Journal;
  readonly route: Route;
  /** Most bytes of the journal. */
  readonly mostBytes: number;
  /** Called when the journal has grown. */
  onGrown(): void;
  /** `what` continues "a background response". */
  warn(what: string, error: unknown): void;
}

/** Times that an engine may end without a further token. */
const MOST_CRASHES = 3;
/** Time between two attempts while the engine or the provider takes no request. */
const WAIT_MS = 1000;
/** Attempts of which each was refused for that reason. */
const MOST_WAITS = 600;
const LOCAL = 'local';

export class BackgroundRun {
  readonly #parts: RunParts;
  readonly #call: ResponsesCall;
  readonly #conversation: Conversation;
  readonly #telling: Telling;
  readonly #stop = new AbortController();
  readonly #sent = new Sent();
  readonly #tokens: number[] = [];
  #start: StartEvent | null = null;
  #isCancelled = false;
  #isSuspended = false;
  /** Called when the journal has grown or the run is over. */
  readonly #waiting: (() => void)[] = [];

  /** Throws INVALID_REQUEST if this svc does not know the request of an earlier one. */
  constructor(parts: RunParts) {
    this.#parts = parts;
    const { body, items } = parts.request;
    this.#call = parseResponses(body);
    const { instructions } = this.#call;
    this.#conversation = toConversation(
      instructions,
      items.map((item, index) => ({ item, place: `input[${String(index)}]` })),
    );
    this.#telling = new Telling(parts.request);
  }

  /** The response as it is now, as it is stored. */
  record(owner: string): StoredResponse {
    const { id, items, created_at: storedAt } = this.#parts.request;
    const { response } = this.#telling;
    return { owner, stored_at: storedAt, response, input: storedItems(id, items) };
  }

  /** Bytes of the journal that may be shown. */
  get bytes(): number {
    return this.#parts.journal.bytes;
  }

  get isOver(): boolean {
    return this.#telling.isOver;
  }

  /** Takes a line that is in the journal. */
  recall(line: JournalLine): void {
    if ('events' in line) {
      for (const event of line.events) {
        if (event.type === 'start') this.#start = event;
        if (isContent(event)) this.#sent.add(event);
      }
      this.#tokens.push(...line.tokens);
    }
    this.#telling.tell(line);
    this.#wake();
  }

  /** Ends the response as cancelled. */
  cancel(): void {
    this.#isCancelled = true;
    this.#stop.abort(new SvcError('CANCELLED', 'the response was cancelled'));
  }

  /** Stops without an end: a later daemon goes on. */
  suspend(): void {
    this.#isSuspended = true;
    this.#stop.abort(new SvcError('NOT_READY', 'svc is stopping'));
  }

  /** Resolves once there is more than `bytes`, or the run is over. */
  async more(bytes: number): Promise<void> {
    if (this.bytes > bytes || this.isOver || this.#isSuspended) return;
    await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  /** Never rejects. Ends once the response has its end, or was suspended. */
  async answer(): Promise<void> {
    try {
      for (let crashes = 0, waits = 0; !this.isOver;) {
        const before = this.#tokens.length;
        try {
          await this.#ask();
        } catch (error) {
          if (this.#isSuspended) return;
          const failure = SvcError.from(error);
          crashes = this.#tokens.length > before ? 0 : crashes;
          const isCrash = failure.code === 'ENGINE_CRASHED' && this.#mayGoOn && ++crashes < MOST_CRASHES;
          const isBusy = (failure.code === 'BUSY' || failure.code === 'NOT_READY') && ++waits < MOST_WAITS;
          if (this.#isCancelled || !(isCrash || (isBusy && this.#mayGoOn))) {
            await this.#end(this.#isCancelled ? {} : { error: this.#told(error).toRecord() });
          } else if (isBusy) {
            await sleep(WAIT_MS, undefined, { signal: this.#stop.signal, ref: false }).catch(() => undefined);
          }
        }
      }
    } catch (error) {
      // The journal cannot be written: what it has is all that anybody has seen, and a later daemon goes on.
      this.#parts.warn('cannot be written', error);
    } finally {
      this.#isSuspended = true;
      this.#wake();
    }
  }

  /** False once a provider has begun an answer that the journal has a part of. */
  get #mayGoOn(): boolean {
    return this.#start === null || this.#start.provider === LOCAL;
  }

  #told(error: unknown): SvcError {
    const failure = SvcError.from(error);
    if (failure.code === 'INTERNAL') this.#parts.warn('failed', error);
    return SvcError.from(inTheirWords(failure, this.#call, this.#conversation.places));
  }

  /** Resolves once the answer is complete and the journal has its end. */
  async #ask(): Promise<void> {
    this.#stop.signal.throwIfAborted();
    if (!this.#mayGoOn) {
      const provider = this.#start?.provider ?? 'the provider';
      throw new SvcError('PROVIDER_FAILED', `svc ended while ${provider} answered: only a local model can go on`);
    }
    const skipped = this.#sent.copy();
    let opening: (RouteEvent | GenerateEvent)[] = [];
    let group: GenerateEvent[] = [];
    for await (const event of this.#events()) {
      if (event.type === 'finish') { await this.#complete([...opening, ...group], event); return; }
      if (!isContent(event)) {
        if (this.#start === null) opening.push(event);
        continue;
      }
      const { tokens = [], ...content } = event;
      const rest = skipped.cut(content);
      if (rest !== null) group.push(rest);
      if (tokens.length === 0 && isLocal(opening, this.#start)) continue;
      await this.#append({ events: [...opening, ...group], tokens });
      [opening, group] = [[], []];
    }
  }

  #events(): ReturnType<Route> {
    const { request, route } = this.#parts;
    const { messages } = this.#conversation;
    const asked = { ...this.#call.request, messages, continuation: { seed: request.seed, tokens: [...this.#tokens] } };
    const pinned = this.#start === null ? {} : { route: LOCAL, fallback: false, model: this.#start.model };
    const { caller, id } = request;
    const traceId = id.slice('resp_'.length);
    return route({ ...asked, ...pinned }, { traceId, caller, signal: this.#stop.signal, arrivedAt: performance.now() });
  }

  async #complete(rest: GroupLine['events'], finish: FinishEvent): Promise<void> {
    if (finish.reason === 'cancelled') throw new SvcError('ENGINE_CRASHED', 'the engine has ended');
    if (rest.length > 0) await this.#append({ events: rest, tokens: [] });
    await this.#end({ finish });
  }

  async #append(line: GroupLine): Promise<void> {
    const { journal, mostBytes } = this.#parts;
    if (journal.bytes > mostBytes) {
      throw new SvcError('REQUEST_TOO_LARGE', 'the response is larger than what may be stored of one');
    }
    // Until the journal has it, nobody may see it.
    await journal.append(line);
    this.recall(line);
    this.#parts.onGrown();
  }

  async #end(end: Omit<EndLine['end'], 'at'>): Promise<void> {
    const line: EndLine = { end: { at: Date.now(), ...end } };
    await this.#parts.journal.append(line);
    this.recall(line);
    this.#parts.onGrown();
  }

  #wake(): void {
    for (const wake of this.#waiting.splice(0)) wake();
  }
}

function isLocal(opening: readonly (RouteEvent | GenerateEvent)[], known: StartEvent | null): boolean {
  const start = known ?? opening.find((event): event is StartEvent => event.type === 'start');
  return start?.provider === LOCAL;
}

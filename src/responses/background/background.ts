/**
 * The background responses: made without a connection, followed and read by any number of clients, and gone on with by
 * the next daemon if this one ends.
 *
 *   create ──► journal ──► run ──► journal ──► readers (`follow`), each at its own place
 *                 ▲                   │
 *   start of the daemon (`recover`)   └──► the stored record, once it has ended
 */
import { randomInt } from 'node:crypto';
import { shareOf, type Caller } from '../../protocol/caller.ts';
import { SvcError } from '../../protocol/errors.ts';
import type { ResponseEvent } from '../../protocol/openai/responses/answer.ts';
import type { ContentItem } from '../../protocol/openai/responses/items.ts';
import type { ResponseRecord } from '../../protocol/openai/responses/response.ts';
import type { ResponseStore } from '../response-store.ts';
import { isSettled, Journal, readJournal, type JournalLine, type RequestLine } from './journal.ts';
import { BackgroundRun, type Route } from './run.ts';
import { Telling } from './telling.ts';

export interface BackgroundOptions {
  readonly store: ResponseStore;
  readonly route: Route;
  /** Called when a response cannot be written or gone on with; `what` continues "a background response". */
  warn(what: string, error: unknown): void;
}

export interface NewResponse {
  readonly id: string;
  readonly caller: Caller;
  /** As it came; valid. */
  readonly body: Readonly<Record<string, unknown>>;
  /** The whole conversation. */
  readonly items: readonly ContentItem[];
  /** Absent: random. */
  readonly seed: number | undefined;
}

/** Maximum number of responses that are being answered. */
export const MOST_RUNNING = 64;

interface Running {
  readonly run: BackgroundRun;
  readonly owner: string;
  /** Resolves once nothing is left to do. */
  readonly over: Promise<void>;
}

export class BackgroundResponses {
  readonly #options: BackgroundOptions;
  readonly #running = new Map<string, Running>();
  #starting = 0;
  /** Settled once those of earlier daemons are gone on with. */
  #recovered: Promise<void> = Promise.resolve();
  #isStopping = false;

  constructor(options: BackgroundOptions) {
    this.#options = options;
  }

  /** Resolves once the response is on disk, with its record. Throws BUSY, NOT_READY, CANNOT_WRITE. */
  async create({ id, caller, body, items, seed }: NewResponse): Promise<ResponseRecord> {
    this.#admit();
    this.#starting += 1;
    const { store } = this.#options;
    try {
      await store.prepare();
      const request: RequestLine = {
        version: 1,
        id,
        caller,
        created_at: Date.now(),
        seed: seed ?? randomInt(2 ** 32),
        body: { ...body, input: [] },
        items,
      };
      const journal = await Journal.open(store.journalOf(id), 0);
      await journal.append(request);
      const run = this.#run(request, journal);
      run.recall(request);
      const owner = shareOf(caller);
      if (!(await store.put(run.record(owner)))) {
        await journal.close();
        throw new SvcError('REQUEST_TOO_LARGE', 'the conversation is larger than what may be stored of one response');
      }
      const { response } = run.record(owner);
      this.#start(id, run, journal, owner);
      return response;
    } catch (error) {
      store.release(id);
      await store.discard(id);
      throw error;
    } finally {
      this.#starting -= 1;
    }
  }

  /** The response as it is now; null: it is not being answered. */
  current(id: string): ResponseRecord | null {
    const running = this.#running.get(id);
    return running?.run.record(running.owner).response ?? null;
  }

  /** Cancels the response, if it is being answered. Resolves once it has ended. */
  async cancel(id: string): Promise<void> {
    await this.#recovered.catch(() => undefined);
    const running = this.#running.get(id);
    running?.run.cancel();
    await running?.over;
  }

  /**
   * Events with a `sequence_number` above `after`, up to the end of the response. Throws NOT_FOUND without a journal,
   * NOT_READY if svc ends first. REQUIRES: the store is open
   */
  async *follow(id: string, after: number, signal: AbortSignal): AsyncGenerator<ResponseEvent, void, undefined> {
    const path = this.#options.store.journalOf(id);
    const gone = aborted(signal);
    await Promise.race([this.#recovered.catch(() => undefined), gone]);
    let telling: Telling | null = null;
    for (let at = 0; ;) {
      const running = this.#running.get(id);
      const { lines, end } = await readJournal(path, at, running?.run.bytes);
      signal.throwIfAborted();
      at = end;
      for (const line of lines) {
        if ('version' in line) telling = new Telling(line);
        for (const event of telling?.tell(line) ?? []) if (event.sequence_number > after) yield event;
      }
      if (telling === null) throw new SvcError('NOT_FOUND', 'the events of this response are not stored');
      if (telling.isOver) return;
      if (running === undefined) throw new SvcError('NOT_READY', 'svc is stopping: the response goes on later');
      await Promise.race([running.run.more(at), gone]);
    }
  }

  /** Goes on with the responses that earlier daemons have left. Rejects with CANNOT_WRITE. */
  async recover(): Promise<void> {
    this.#recovered = this.#recover();
    await this.#recovered;
  }

  async #recover(): Promise<void> {
    const { store, warn } = this.#options;
    await store.open();
    for (const id of store.journals()) {
      if (this.#isStopping) return;
      if (this.#running.has(id)) continue;
      try {
        await this.#resume(id);
      } catch (error) {
        warn('cannot be gone on with', error);
      }
    }
  }

  /** Stops all of them where they are; the next daemon goes on. Never rejects. */
  async suspend(): Promise<void> {
    this.#isStopping = true;
    const all = [...this.#running.values()];
    for (const { run } of all) run.suspend();
    await Promise.all(all.map(({ over }) => over));
  }

  #admit(): void {
    if (this.#isStopping) throw new SvcError('NOT_READY', 'svc is stopping', { retryAfterSeconds: 1 });
    if (this.#running.size + this.#starting < MOST_RUNNING) return;
    throw new SvcError('BUSY', `${String(MOST_RUNNING)} background responses are being answered already`, {
      hint: 'wait for one to end, or cancel one',
      retryAfterSeconds: 5,
    });
  }

  async #resume(id: string): Promise<void> {
    const { store } = this.#options;
    const path = store.journalOf(id);
    if (await isSettled(path)) return;
    const { lines, end } = await readJournal(path, 0);
    const [request] = lines;
    // Nobody was told of a response without its first line.
    if (request === undefined || !('version' in request)) return;
    const journal = await Journal.open(path, end);
    try {
      const run = this.#run(request, journal);
      for (const line of lines) run.recall(line);
      this.#start(id, run, journal, shareOf(request.caller));
    } catch (error) {
      await journal.close();
      throw error;
    }
  }

  #run(request: RequestLine, journal: Journal): BackgroundRun {
    const { store, route, warn } = this.#options;
    const onGrown = (): void => store.setJournal(request.id, journal.bytes);
    store.hold(request.id);
    onGrown();
    return new BackgroundRun({ request, journal, route, mostBytes: store.mostBytesOfOne, onGrown, warn });
  }

  #start(id: string, run: BackgroundRun, journal: Journal, owner: string): void {
    this.#running.set(id, { run, owner, over: this.#finish(id, run, journal, owner) });
  }

  /** Never rejects. */
  async #finish(id: string, run: BackgroundRun, journal: Journal, owner: string): Promise<void> {
    const { store, warn } = this.#options;
    try {
      await run.answer();
      if (!run.isOver) return;
      const record = run.record(owner);
      if (!(await store.put(record))) warn('is too large to be stored', null);
      const line: JournalLine = { stored: true };
      await journal.append(line);
      store.setJournal(id, journal.bytes);
    } catch (error) {
      warn('cannot be stored', error);
    } finally {
      await journal.close();
      store.release(id);
      this.#running.delete(id);
    }
  }
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}

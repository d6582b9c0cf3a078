/**
 * Background responses: they are answered without a connection, outlive the daemon, and can be read from any point on.
 *
 * Each has a journal (journal.ts) beside the stored responses, in the folder `background`. A journal that has no end
 * belongs to a running response: the next daemon takes it up. When a response has ended it is stored like any other,
 * and its journal stays for as long, so that its events can be read again.
 */
import { randomInt } from 'node:crypto';
import path from 'node:path';
import { makeDirectory } from '../../files/make-directory.ts';
import { errorOfFiles } from '../../files/svc-error.ts';
import { mostOfOneShare } from '../../net/shares.ts';
import { SvcError } from '../../protocol/errors.ts';
import { isResponseId } from '../../protocol/openai/responses/items.ts';
import { codeOf, type StoredResponse } from '../../protocol/openai/responses/response.ts';
import type { Tracer } from '../../protocol/traces/span.ts';
import type { ResponseStore } from '../response-store.ts';
import { Journal, readJournal, type Asked, type Story } from './journal.ts';
import { beginSpan } from './run-span.ts';
import { BackgroundRun, type Route } from './run.ts';
import { Transcript } from './transcript.ts';

export interface BackgroundOptions {
  readonly store: ResponseStore;
  readonly route: Route;
  readonly tracer: Tracer;
  /** Called when a response cannot be stored or taken up. */
  onFailure(error: unknown): void;
}

/** Maximum number of responses that run at once. */
const MOST_RUNS = 64;
/** Maximum bytes of their journals, which they hold in memory. */
const MOST_BYTES = 256 * 1024 * 1024;

function isFull(runs: readonly BackgroundRun[], mostRuns: number, mostBytes: number): boolean {
  return runs.length >= mostRuns || runs.reduce((sum, run) => sum + run.bytes, 0) >= mostBytes;
}

export class BackgroundResponses {
  readonly #options: BackgroundOptions;
  readonly #runs = new Map<string, BackgroundRun>();
  #opened: Promise<void> | null = null;
  /** Settles when no response is being started. */
  #starting: Promise<unknown> = Promise.resolve();
  #isClosed = false;

  constructor(options: BackgroundOptions) {
    this.#options = options;
  }

  /** Takes up what earlier daemons have left. Never rejects. */
  async open(): Promise<void> {
    await (this.#opened ??= this.#takeUp());
  }

  /** Leaves all responses to the next daemon. Never rejects. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#opened;
    await this.#starting;
    await Promise.all([...this.#runs.values()].map((run) => run.leave()));
  }

  /** Starts a response. Rejects with BUSY, NOT_READY, REQUEST_TOO_LARGE, CANNOT_WRITE. */
  async start(asked: Omit<Asked, 'at' | 'seed'>): Promise<BackgroundRun> {
    await this.open();
    // One after the other: each counts those before it.
    const started = this.#starting.then(() => this.#start(asked));
    this.#starting = started.catch(() => undefined);
    return await started;
  }

  async #start(asked: Omit<Asked, 'at' | 'seed'>): Promise<BackgroundRun> {
    if (this.#isClosed) throw new SvcError('NOT_READY', 'svc is stopping');
    this.#checkRoom(asked.owner);
    const { store } = this.#options;
    const whole: Asked = { ...asked, at: Date.now(), seed: randomInt(2 ** 32) };
    this.#checkSize(whole);
    await makeDirectory(path.dirname(store.journalOf(asked.id))).catch((error: unknown) => {
      throw errorOfFiles(error);
    });
    const journal = await Journal.create(store.journalOf(asked.id), whole);
    return this.#run({ asked: whole, entries: [] }, journal);
  }

  /** A running response. null: `owner` has none with this id. */
  async running(id: string, owner: string): Promise<BackgroundRun | null> {
    await this.open();
    const run = this.#runs.get(id);
    return run?.owner === owner ? run : null;
  }

  /**
   * Encoded events of a response that has ended after the one with this sequence number, each made when it is read.
   * null: `owner` has no such background response. Rejects with CANNOT_WRITE.
   */
  async eventsAfter(sequence: number, id: string, owner: string): Promise<Iterable<readonly string[]> | null> {
    if (!isResponseId(id)) return null;
    const story = await readJournal(this.#options.store.journalOf(id)).catch((error: unknown) => {
      throw errorOfFiles(error);
    });
    return story?.asked.owner === owner ? Transcript.eventsAfter(sequence, story) : null;
  }

  /** Stores what fits: all, or the response without its events, or only how it ended. Rejects with CANNOT_WRITE. */
  async #keep(record: StoredResponse): Promise<void> {
    const { store } = this.#options;
    if (await store.put(record)) return;
    await store.dropJournal(record.response.id);
    if (await store.put(record)) return;
    await store.put(withoutItems(record));
  }

  /** Throws REQUEST_TOO_LARGE if not even the conversation can be stored. */
  #checkSize(asked: Asked): void {
    const { mostBytes } = this.#options.store;
    if (Buffer.byteLength(JSON.stringify(new Transcript(asked).record)) <= mostBytes) return;
    const limit = `a background response may have ${String(mostBytes)} bytes, because it is stored`;
    throw new SvcError('REQUEST_TOO_LARGE', `the conversation is too large: ${limit}`, {
      hint: 'shorten the conversation, or send it without background',
    });
  }

  #checkRoom(owner: string): void {
    const runs = [...this.#runs.values()];
    const own = runs.filter((run) => run.owner === owner);
    if (isFull(own, mostOfOneShare(MOST_RUNS), mostOfOneShare(MOST_BYTES)))
      throw new SvcError('BUSY', `${String(own.length)} background responses of this client are running`, {
        hint: 'wait for one, or cancel it: POST /v1/responses/ID/cancel',
      });
    if (isFull(runs, MOST_RUNS, MOST_BYTES))
      throw new SvcError('BUSY', `${String(runs.length)} background responses are running`, {
        hint: 'try again when one has ended',
      });
  }

  async #takeUp(): Promise<void> {
    const { store, onFailure } = this.#options;
    await store.open().catch(onFailure);
    for (const id of await store.unfinished().catch(() => [])) {
      try {
        await this.#resume(id);
      } catch (error) {
        onFailure(error);
      }
    }
  }

  async #resume(id: string): Promise<void> {
    const { store } = this.#options;
    const resumed = await Journal.resume(store.journalOf(id));
    if (resumed === null) {
      await store.dropJournal(id);
      return;
    }
    const { journal, story } = resumed;
    const takenUp = { at: Date.now(), taken_up: true } as const;
    await journal.append([takenUp]);
    this.#run({ asked: story.asked, entries: [...story.entries, takenUp] }, journal);
  }

  #run(story: Story, journal: Journal): BackgroundRun {
    const { route, tracer, onFailure } = this.#options;
    const run = new BackgroundRun(story, {
      journal,
      route,
      span: beginSpan(tracer, story),
      keep: (record) => this.#keep(record).catch(onFailure),
    });
    this.#runs.set(run.id, run);
    void run.finished.then(() => this.#runs.delete(run.id));
    return run;
  }
}

/** Returns the response without its items. If it had an answer, its status becomes `failed`: the answer is lost. */
function withoutItems({ response, ...record }: StoredResponse): StoredResponse {
  const error = new SvcError('REQUEST_TOO_LARGE', 'the response is too large to be stored');
  const isAnswered = response.status === 'completed' || response.status === 'incomplete';
  const end = {
    status: 'failed',
    error: { code: codeOf(error), message: error.message },
    incomplete_details: null,
  } as const;
  return {
    ...record,
    response: { ...response, ...(isAnswered ? { ...end, completed_at: null } : {}), output: [] },
    input: [],
    has_items: false,
  };
}

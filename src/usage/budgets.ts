/**
 * Daily budgets (UTC) of providers: requests and tokens. Usage is counted from the ledger, so that it survives a
 * restart. Tokens are known only when an answer ends, so requests in flight may exceed the token budget.
 *
 * If the ledger cannot be read or written, or its disk does not respond, requests to providers with a budget are
 * refused. Requests to other providers continue; their lines are written once the ledger is writable again.
 */
import { within } from '../files/within.ts';
import { whyOf } from '../files/why.ts';
import { SvcError } from '../protocol/errors.ts';
import { dateOf, midnightAfter } from './day.ts';
import { LedgerFile, readUsage, type AnsweredLine } from './ledger.ts';

export interface Budget {
  /** null: unlimited. */
  readonly requestsPerDay: number | null;
  /** Input and output tokens together. null: unlimited. */
  readonly tokensPerDay: number | null;
}

export interface BudgetsOptions {
  /** Folder of the ledger. */
  readonly dir: string;
  /** Returns the current budget of a provider. */
  budgetOf(provider: string): Budget;
  /** Called when the ledger cannot be written; not again until a write has succeeded. */
  onFailure(error: unknown): void;
  /** Milliseconds since 1970. */
  readonly now?: () => number;
}

/** Longest time that the end of an answer waits for its ledger line. */
const ANSWER_WAITS_MS = 1000;
/** Timeout of reading the ledger, then of writing it, before a request to a provider with a budget. */
const ADMISSION_WAITS_MS = 5000;
const RETRY_MS = 2000;
/** Lines that may wait until the ledger is writable again. Further lines are dropped. */
const MAX_WAITING = 10_000;
/** Days kept in memory, in case the clock is set back; older days are read from the ledger again. */
const DAYS_KEPT = 4;

interface Spent {
  requests: number;
  tokens: number;
}

/** Usage of one day. */
class Day {
  readonly spent = new Map<string, Spent>();
  /** Resolves when the usage before this process is counted. null: not read yet. */
  loaded: Promise<void> | null = null;

  of(provider: string): Spent {
    const spent = this.spent.get(provider) ?? { requests: 0, tokens: 0 };
    this.spent.set(provider, spent);
    return spent;
  }
}

export class Budgets {
  readonly #options: BudgetsOptions;
  readonly #ledger: LedgerFile;
  readonly #now: () => number;
  /** By date, the most recently used last. */
  readonly #days = new Map<string, Day>();
  #failure: string | null = null;
  /** Lines not written yet, oldest first. */
  #waiting: AnsweredLine[] = [];
  #underWay = 0;
  #retryTimer: NodeJS.Timeout | null = null;

  constructor(options: BudgetsOptions) {
    this.#options = options;
    this.#ledger = new LedgerFile(options.dir);
    this.#now = options.now ?? Date.now;
  }

  /** The error that keeps lines out of the ledger. null: none. */
  get trouble(): string | null {
    if (this.#failure !== null) return this.#failure;
    return this.#ledger.standsStill ? 'the usage ledger has not taken a line for a second or more' : null;
  }

  /** Counts a request before it is sent. Throws BUSY if the budget is used up, CANNOT_WRITE if it cannot be counted. */
  async admit(provider: string): Promise<void> {
    const { requestsPerDay, tokensPerDay } = this.#options.budgetOf(provider);
    if (requestsPerDay === null && tokensPerDay === null) return;
    const at = this.#at();
    const day = this.#day(at);
    await this.#inTime(provider, 'read', this.#load(day, at));
    const spent = day.of(provider);
    if (requestsPerDay !== null && spent.requests >= requestsPerDay)
      throw this.#usedUp(provider, 'requests', requestsPerDay);
    if (tokensPerDay !== null && spent.tokens >= tokensPerDay) throw this.#usedUp(provider, 'tokens', tokensPerDay);
    spent.requests += 1;
    const written = this.#ledger.append({ event: 'asked', at, provider }).catch((error: unknown) => {
      spent.requests -= 1;
      throw error;
    });
    await this.#inTime(provider, 'written', written);
  }

  /**
   * Counts an answer. Never rejects: an answer that cannot be counted is still delivered. Resolves at once for a
   * provider without a budget, unless the caller's key `hasQuota`; else when the line is written, at most a second
   * later.
   */
  async answered(answer: Omit<AnsweredLine, 'event' | 'at'>, hasQuota = false): Promise<void> {
    const counted = this.#count({ event: 'answered', at: this.#at(), ...answer });
    const { requestsPerDay, tokensPerDay } = this.#options.budgetOf(answer.provider);
    if (requestsPerDay === null && tokensPerDay === null && !hasQuota) return;
    await within(ANSWER_WAITS_MS, counted);
  }

  /** Resolves when every line is written or has failed, at most a second later. */
  async close(): Promise<void> {
    if (this.#retryTimer !== null) clearTimeout(this.#retryTimer);
    const last = this.#waiting.splice(0).map((line) => this.#ledger.append(line));
    await within(ANSWER_WAITS_MS, Promise.allSettled([...last, this.#ledger.close()]));
  }

  /** Never rejects. */
  async #count(line: AnsweredLine): Promise<void> {
    const day = this.#days.get(dateOf(line.at));
    // If the day is not loaded yet, this line will be read from the ledger.
    if (day !== undefined && day.loaded !== null) {
      await day.loaded.then(
        () => (day.of(line.provider).tokens += tokensOf(line)),
        () => undefined,
      );
    }
    await this.#write(line);
  }

  /** Never rejects. */
  async #write(line: AnsweredLine): Promise<void> {
    if (this.#waiting.length > 0 || this.#underWay >= MAX_WAITING) {
      this.#keep(line);
      return;
    }
    this.#underWay += 1;
    try {
      await this.#ledger.append(line);
      this.#failure = null;
    } catch (error) {
      this.#failed(error);
      this.#keep(line);
    } finally {
      this.#underWay -= 1;
    }
  }

  #failed(error: unknown): void {
    if (this.#failure === null) this.#options.onFailure(error);
    this.#failure = `cannot write the usage ledger: ${whyOf(error)}`;
  }

  /** Keeps a line until the ledger is writable. */
  #keep(line: AnsweredLine): void {
    if (this.#waiting.length < MAX_WAITING) this.#waiting.push(line);
    this.#retryTimer ??= this.#retryLater();
  }

  #retryLater(): NodeJS.Timeout {
    const retry = (): void => {
      this.#writeWaiting().catch(this.#options.onFailure);
    };
    return setTimeout(retry, RETRY_MS).unref();
  }

  /** Never rejects. */
  async #writeWaiting(): Promise<void> {
    // A line is taken out before it is written: whatever else reads the list must not write or count it again.
    for (let line = this.#waiting.shift(); line !== undefined; line = this.#waiting.shift()) {
      try {
        await this.#ledger.append(line);
      } catch (error) {
        this.#waiting.unshift(line);
        this.#failed(error);
        this.#retryTimer = this.#retryLater();
        return;
      }
      this.#failure = null;
    }
    this.#retryTimer = null;
  }

  /** Reads the usage of a day once. After an error the next call reads it again. */
  async #load(day: Day, at: string): Promise<void> {
    day.loaded ??= this.#read(day, dateOf(at)).catch((error: unknown) => {
      day.loaded = null;
      throw error;
    });
    await day.loaded;
  }

  async #read(day: Day, date: string): Promise<void> {
    await this.#ledger.settled();
    const waiting = this.#waiting.filter((line) => dateOf(line.at) === date);
    day.spent.clear();
    for await (const line of readUsage(this.#options.dir, date)) {
      if (dateOf(line.at) !== date) continue;
      if (line.event === 'asked') day.of(line.provider).requests += 1;
      else day.of(line.provider).tokens += tokensOf(line);
    }
    for (const line of waiting) day.of(line.provider).tokens += tokensOf(line);
  }

  #day(at: string): Day {
    const date = dateOf(at);
    const day = this.#days.get(date) ?? new Day();
    this.#days.delete(date);
    this.#days.set(date, day);
    const [oldest] = this.#days.keys();
    if (this.#days.size > DAYS_KEPT && oldest !== undefined) this.#days.delete(oldest);
    return day;
  }

  /** Waits for `work`. Throws CANNOT_WRITE when it fails or takes too long. */
  async #inTime(provider: string, what: 'read' | 'written', work: Promise<void>): Promise<void> {
    let cause: unknown = null;
    const done = work.then(
      () => true,
      (error: unknown) => {
        cause = error;
        return false;
      },
    );
    if ((await within(ADMISSION_WAITS_MS, done)) === true) return;
    const why = cause === null ? 'the disk does not respond' : whyOf(cause);
    throw new SvcError('CANNOT_WRITE', `${provider} has a budget, but its usage cannot be ${what}: ${why}`, {
      hint: 'check that the state directory is writable and has free disk space: svc doctor',
      cause,
    });
  }

  #at(): string {
    return new Date(this.#now()).toISOString();
  }

  #usedUp(provider: string, what: 'requests' | 'tokens', bound: number): SvcError {
    const midnight = midnightAfter(dateOf(this.#at()));
    return new SvcError('BUSY', `${provider} has used up its budget of ${String(bound)} ${what} per day`, {
      hint: `wait until midnight UTC, or raise the budget: svc config set providers.${provider}.${what}_per_day N`,
      retryAfterSeconds: Math.ceil((midnight - this.#now()) / 1000),
    });
  }
}

function tokensOf({ input_tokens, output_tokens }: Pick<AnsweredLine, 'input_tokens' | 'output_tokens'>): number {
  return (input_tokens ?? 0) + (output_tokens ?? 0);
}

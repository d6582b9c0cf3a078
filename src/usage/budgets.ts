/**
 * How much a provider may be asked in a day (UTC). Counted from the ledger, so that a restart forgets
 * nothing. Tokens are known when an answer ends: requests under way may exceed the day's tokens by what they take.
 *
 * A ledger that cannot be read or written, or does not answer, costs the providers that have a budget:
 * they are not asked. Every other answer is sent at once, and its line is written once the ledger can
 * be written again.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { whyOf } from '../files/why.ts';
import { SvcError } from '../protocol/errors.ts';
import { LedgerFile, readUsage, type AnsweredLine } from './ledger.ts';

export interface Budget {
  /** null: no bound. */
  readonly requestsPerDay: number | null;
  /** Of prompts and answers together. null: no bound. */
  readonly tokensPerDay: number | null;
}

export interface BudgetsOptions {
  /** Where the ledger lies. */
  readonly dir: string;
  /** Of a provider, as it is now. */
  budgetOf(provider: string): Budget;
  /** The ledger could not be written. Told once, and once more after it could be. */
  onFailure(error: unknown): void;
  /** Milliseconds since 1970. */
  readonly now?: () => number;
}

/** The end of an answer waits no longer for its line. */
const ANSWER_WAITS_MS = 1000;
/** A provider with a budget is not asked when the ledger takes longer: to be read, then to be written. */
const ADMISSION_WAITS_MS = 5000;
const RETRY_MS = 2000;
/** Lines that wait for a ledger that can be written again. Those beyond are dropped. */
const MAX_WAITING = 10_000;
/** More than a clock steps over; an older day is read again from the ledger if it is asked for. */
const DAYS_KEPT = 4;

interface Spent {
  requests: number;
  tokens: number;
}

/** What was spent in one day. */
class Day {
  readonly spent = new Map<string, Spent>();
  /** Resolves when what was spent before this process is counted. null: nothing has needed to know. */
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
  /** By date, the one asked for last at the end. */
  readonly #days = new Map<string, Day>();
  #failure: string | null = null;
  /** Not written, oldest first. */
  #waiting: AnsweredLine[] = [];
  #underWay = 0;
  #retryTimer: NodeJS.Timeout | null = null;

  constructor(options: BudgetsOptions) {
    this.#options = options;
    this.#ledger = new LedgerFile(options.dir);
    this.#now = options.now ?? Date.now;
  }

  /** Why usage is not written down. null: it is. */
  get trouble(): string | null {
    if (this.#failure !== null) return this.#failure;
    return this.#ledger.standsStill ? 'the usage ledger has not taken a line for a second or more' : null;
  }

  /** Called before a provider is asked. Throws BUSY when its day is used up, CANNOT_WRITE when that cannot be held. */
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
   * Never rejects: an answer is not lost because it cannot be counted. Resolves at once for a provider
   * without a budget, else when the line is written, a second later at the latest.
   */
  async answered(answer: Omit<AnsweredLine, 'event' | 'at'>): Promise<void> {
    const counted = this.#count({ event: 'answered', at: this.#at(), ...answer });
    const { requestsPerDay, tokensPerDay } = this.#options.budgetOf(answer.provider);
    if (requestsPerDay === null && tokensPerDay === null) return;
    await within(ANSWER_WAITS_MS, counted);
  }

  /** Resolves when every line is written, or was refused, a second later at the latest. */
  async close(): Promise<void> {
    if (this.#retryTimer !== null) clearTimeout(this.#retryTimer);
    const last = this.#waiting.splice(0).map((line) => this.#ledger.append(line));
    await within(ANSWER_WAITS_MS, Promise.allSettled([...last, this.#ledger.close()]));
  }

  /** Never rejects. */
  async #count(line: AnsweredLine): Promise<void> {
    const day = this.#days.get(dateOf(line.at));
    // Not loaded: the ledger will have the line by the time that it is read.
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
    this.#failure = `usage is not written down: ${whyOf(error)}`;
  }

  /** Until the ledger can be written. */
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
    for (let [line] = this.#waiting; line !== undefined; [line] = this.#waiting) {
      try {
        await this.#ledger.append(line);
      } catch (error) {
        this.#failed(error);
        this.#retryTimer = this.#retryLater();
        return;
      }
      this.#failure = null;
      this.#waiting.shift();
    }
    this.#retryTimer = null;
  }

  /** A day that cannot be read is read again when it is asked for next. */
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

  /** `work`, as long as it is done in time. Throws CANNOT_WRITE. */
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
    const why = cause === null ? 'the disk does not answer' : whyOf(cause);
    throw new SvcError('CANNOT_WRITE', `the usage of ${provider} cannot be ${what}, and it has a budget: ${why}`, {
      hint: 'see that the state directory can be read and written and has room: svc doctor',
      cause,
    });
  }

  #at(): string {
    return new Date(this.#now()).toISOString();
  }

  #usedUp(provider: string, what: 'requests' | 'tokens', bound: number): SvcError {
    const midnight = Date.parse(`${dateOf(this.#at())}T00:00:00Z`) + 86_400_000;
    return new SvcError('BUSY', `${provider} has had its ${String(bound)} ${what} of today`, {
      hint: `wait until midnight UTC, or raise it: svc config set providers.${provider}.${what}_per_day N`,
      retryAfterSeconds: Math.ceil((midnight - this.#now()) / 1000),
    });
  }
}

function dateOf(at: string): string {
  return at.slice(0, 10);
}

function tokensOf({ input_tokens, output_tokens }: Pick<AnsweredLine, 'input_tokens' | 'output_tokens'>): number {
  return (input_tokens ?? 0) + (output_tokens ?? 0);
}

/** The result of `work`; undefined when it takes longer. REQUIRES: `work` never rejects. */
async function within<Result>(timeoutMs: number, work: Promise<Result>): Promise<Result | undefined> {
  const given = new AbortController();
  try {
    return await Promise.race([work, sleep(timeoutMs, undefined, { signal: given.signal }).catch(() => undefined)]);
  } finally {
    given.abort();
  }
}

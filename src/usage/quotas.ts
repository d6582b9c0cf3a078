/**
 * Quotas of API keys: input and output tokens per day and per calendar month (UTC), counted by the key's name from the
 * ledger, so that a crash of this process or a new start renews nothing. Tokens are known only when an answer ends, so
 * requests in flight may exceed a quota.
 *
 * Lines from before this process are read from the ledger, once a month; its own answers are counted as they end.
 */
import { within } from '../files/within.ts';
import { whyOf } from '../files/why.ts';
import type { Caller } from '../protocol/caller.ts';
import { SvcError } from '../protocol/errors.ts';
import { hasQuota } from '../protocol/keys.ts';
import { dateOf, midnightAfter } from './day.ts';
import { readUsage, type AnsweredLine } from './ledger.ts';

export interface QuotasOptions {
  /** Folder of the ledger. */
  readonly dir: string;
  /** Returns the error that keeps lines out of the ledger. null: none. */
  trouble(): string | null;
  /** Milliseconds since 1970. */
  readonly now?: () => number;
}

/** Timeout of reading the ledger before a request. */
const READ_MS = 5000;

/** Tokens by date (`2026-11-21`) and name of the key. */
class Tally {
  readonly #tokens = new Map<string, Map<string, number>>();

  add(date: string, key: string, tokens: number): void {
    const day = this.#tokens.get(date) ?? new Map<string, number>();
    day.set(key, (day.get(key) ?? 0) + tokens);
    this.#tokens.set(date, day);
  }

  /** `period`: a date, or the month that begins it. */
  of(period: string, key: string): number {
    let sum = 0;
    for (const [date, day] of this.#tokens) if (date.startsWith(period)) sum += day.get(key) ?? 0;
    return sum;
  }

  /** Forgets all dates before a month. */
  forgetBefore(month: string): void {
    for (const date of this.#tokens.keys()) if (date < month) this.#tokens.delete(date);
  }
}

export class Quotas {
  readonly #options: QuotasOptions;
  readonly #now: () => number;
  readonly #startedAt: string;
  /** Answers of this process. */
  readonly #own = new Tally();
  /** Answers of earlier processes in a month. null: not read yet. */
  #earlier: { readonly month: string; readonly tally: Promise<Tally> } | null = null;

  constructor(options: QuotasOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.#startedAt = new Date(this.#now()).toISOString();
  }

  /** Throws BUSY if the caller's key has used up its quota, CANNOT_WRITE if that cannot be counted. */
  async admit({ name, limits = {} }: Pick<Caller, 'name' | 'limits'>): Promise<void> {
    if (name === null || !hasQuota(limits)) return;
    const { trouble } = this.#options;
    const why = trouble();
    if (why !== null) throw uncounted(name, why);
    const date = this.#today();
    const earlier = await this.#inTime(name, this.#read(date.slice(0, 7)));
    const used = (period: string): number => earlier.of(period, name) + this.#own.of(period, name);
    const { tokens_per_day: daily, tokens_per_month: monthly } = limits;
    // The month first: it renews later, so its time is the one to wait for.
    if (monthly !== undefined && used(date.slice(0, 7)) >= monthly)
      throw this.#usedUp(name, `${String(monthly)} tokens per month`, nextMonth(date));
    if (daily !== undefined && used(date) >= daily)
      throw this.#usedUp(name, `${String(daily)} tokens per day`, midnightAfter(date));
  }

  /** Counts an answer that has ended. */
  answered({ key, input_tokens, output_tokens }: Omit<AnsweredLine, 'event' | 'at'>): void {
    const tokens = (input_tokens ?? 0) + (output_tokens ?? 0);
    if (key === null || key === undefined || tokens === 0) return;
    const date = this.#today();
    this.#own.add(date, key, tokens);
    this.#own.forgetBefore(date.slice(0, 7));
  }

  #today(): string {
    return dateOf(new Date(this.#now()).toISOString());
  }

  /** Reads a month once. After an error the next call reads it again. */
  async #read(month: string): Promise<Tally> {
    if (this.#earlier?.month !== month) {
      const tally = this.#tally(month);
      this.#earlier = { month, tally };
      tally.catch(() => {
        if (this.#earlier?.tally === tally) this.#earlier = null;
      });
    }
    return await this.#earlier.tally;
  }

  async #tally(month: string): Promise<Tally> {
    const tally = new Tally();
    for await (const line of readUsage(this.#options.dir, `${month}-01`)) {
      if (line.event !== 'answered' || typeof line.key !== 'string' || line.at >= this.#startedAt) continue;
      tally.add(dateOf(line.at), line.key, (line.input_tokens ?? 0) + (line.output_tokens ?? 0));
    }
    return tally;
  }

  async #inTime(name: string, reading: Promise<Tally>): Promise<Tally> {
    try {
      const tally = await within(READ_MS, reading);
      if (tally !== undefined) return tally;
    } catch (error) {
      throw uncounted(name, whyOf(error), error);
    }
    throw uncounted(name, 'the disk does not respond');
  }

  #usedUp(name: string, quota: string, renewal: number): SvcError {
    const when = new Date(renewal).toISOString().replace('.000Z', 'Z');
    return new SvcError('BUSY', `the API key ${name} has used up its quota of ${quota}; it renews at ${when}`, {
      hint: 'wait until then, or use another key',
      retryAfterSeconds: Math.max(1, Math.ceil((renewal - this.#now()) / 1000)),
      retryable: false,
    });
  }
}

function nextMonth(date: string): number {
  const [year = 0, month = 0] = date.split('-').map(Number);
  // Months count from 0 here, so this is the first day of the next one.
  return Date.UTC(year, month, 1);
}

function uncounted(name: string, why: string, cause?: unknown): SvcError {
  return new SvcError('CANNOT_WRITE', `the API key ${name} has a quota, but its usage cannot be counted: ${why}`, {
    hint: 'check that the state directory is writable and has free disk space: svc doctor',
    cause,
  });
}

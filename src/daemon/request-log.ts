/**
 * Log lines of requests that failed, the same for every listener, and of answers that repeat themselves.
 *
 * A client can make as many requests fail as it likes, and a log that rotates keeps only so many lines. So each client
 * gets a number of lines, and all clients together get another; one line then counts the requests without a line.
 * Failures of the daemon itself always get a line.
 */
import type { Logger } from '../log/log.ts';
import { networkOf } from '../net/ip-address.ts';
import { shareOf, type Caller } from '../protocol/caller.ts';
import { ERRORS, type ErrorCode, type SvcError } from '../protocol/errors.ts';

/** Fields of a log line that name the caller. Empty if no API key was sent: addresses are not logged. */
export function keyField(caller: Caller | null | undefined): { readonly key?: string } {
  return typeof caller?.name === 'string' ? { key: caller.name } : {};
}

/** The client of a request that is logged. */
export interface FailedClient {
  /** Absent or null: it was refused before it was known. */
  readonly caller?: Caller | null | undefined;
  /** Address of the peer; used if there is no caller. */
  readonly address?: string | undefined;
}

export interface FailureLimits {
  /** Lines at once, of one client and of all. */
  readonly ofOne: number;
  readonly ofAll: number;
  /** Further lines per minute, of one client and of all. */
  readonly perMinuteOfOne: number;
  readonly perMinuteOfAll: number;
  /** From the first request without a line to the line that counts them. */
  readonly summaryMs: number;
}

/** At most some 20 MB of lines a day, whatever clients do: the log files keep two days and more. */
const LIMITS: FailureLimits = {
  ofOne: 100,
  ofAll: 500,
  perMinuteOfOne: 10,
  perMinuteOfAll: 60,
  summaryMs: 10_000,
};
/** Clients whose lines are counted; those that failed last. */
const MOST_CLIENTS = 1000;
/** API keys named in a line that counts. */
const MOST_KEYS = 10;
/** Failures that no client causes by its request. */
const OWN_FAILURES: ReadonlySet<ErrorCode> = new Set([
  'INTERNAL',
  'CONFIG_INVALID',
  'CANNOT_WRITE',
  'ENGINE_CRASHED',
  'ENGINE_UNAVAILABLE',
  'OUT_OF_MEMORY',
]);

export class FailureLog {
  readonly #log: Logger;
  readonly #limits: FailureLimits;
  readonly #all: Allowance;
  readonly #clients = new Map<string, Allowance>();
  /** Requests without a line, by the key's name. */
  readonly #leftOut = new Map<string | null, number>();
  #timer: NodeJS.Timeout | null = null;

  constructor(log: Logger, limits: Partial<FailureLimits> = {}) {
    this.#log = log;
    this.#limits = { ...LIMITS, ...limits };
    this.#all = new Allowance(this.#limits.ofAll, this.#limits.perMinuteOfAll);
  }

  /** Logs only the code of a client's error (HTTP status below BUSY's): its message may quote the request. */
  write(error: SvcError, client: FailedClient, fields: object, message: string): void {
    const { http } = error.facts;
    const level = http >= 500 ? 'error' : 'info';
    if (!this.#log.isLevelEnabled(level)) return;
    if (!OWN_FAILURES.has(error.code) && !this.#allows(client)) return this.#leaveOut(client);
    const what = http < ERRORS.BUSY.http ? { code: error.code } : { err: error };
    this.#log[level]({ ...fields, ...what }, message);
  }

  /** Logs a warning that a client can cause as often as it likes. */
  warn(client: FailedClient, fields: object, message: string): void {
    if (!this.#log.isLevelEnabled('warn')) return;
    if (!this.#allows(client)) return this.#leaveOut(client);
    this.#log.warn(fields, message);
  }

  /** Writes the line that counts, if there is something to count. */
  close(): void {
    if (this.#timer === null) return;
    clearTimeout(this.#timer);
    this.#timer = null;
    const counts = [...this.#leftOut].sort(([, one], [, other]) => other - one);
    this.#leftOut.clear();
    const keys = counts.filter(([key]) => key !== null).slice(0, MOST_KEYS);
    this.#log.warn(
      {
        left_out: counts.reduce((sum, [, count]) => sum + count, 0),
        ...(keys.length === 0 ? {} : { keys: Object.fromEntries(keys) }),
      },
      'requests without a line of their own, because their clients sent too many',
    );
  }

  #allows({ caller, address = '' }: FailedClient): boolean {
    const id = caller ? shareOf(caller) : `address:${networkOf(address)}`;
    const own = this.#clients.get(id) ?? new Allowance(this.#limits.ofOne, this.#limits.perMinuteOfOne);
    this.#clients.delete(id);
    this.#clients.set(id, own);
    const [oldest] = this.#clients.keys();
    if (this.#clients.size > MOST_CLIENTS && oldest !== undefined) this.#clients.delete(oldest);
    if (!own.has() || !this.#all.has()) return false;
    own.take();
    this.#all.take();
    return true;
  }

  #leaveOut({ caller }: FailedClient): void {
    const key = caller?.name ?? null;
    this.#leftOut.set(key, (this.#leftOut.get(key) ?? 0) + 1);
    this.#timer ??= setTimeout(() => this.close(), this.#limits.summaryMs).unref();
  }
}

/** A number of lines at once, and further ones at a rate (token bucket). */
class Allowance {
  readonly #most: number;
  readonly #perMs: number;
  #left: number;
  #countedAt = performance.now();

  constructor(most: number, perMinute: number) {
    this.#most = most;
    this.#left = most;
    this.#perMs = perMinute / 60_000;
  }

  has(): boolean {
    const now = performance.now();
    this.#left = Math.min(this.#most, this.#left + (now - this.#countedAt) * this.#perMs);
    this.#countedAt = now;
    return this.#left >= 1;
  }

  take(): void {
    this.#left -= 1;
  }
}

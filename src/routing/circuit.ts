/**
 * Circuit breaker of a provider. After FAILURES consecutive failures the circuit opens, each time for longer; then it
 * is half-open: one request tries the provider and the others wait for its first content, as long as their callers do.
 * Only a complete answer resets the count, so answers that always break off midway open the circuit too. Not counted as
 * failures are errors of the caller, errors that show that the provider is alive (busy, key refused), and errors before
 * anything was sent to it (its budget is used up, or the request waited in our own queue). A caller's own deadline counts only if the provider had been silent for PATIENCE_MS: otherwise any
 * client could open the circuit for all with tiny deadlines.
 */
import {
  BrokenCircuitError,
  circuitBreaker,
  CircuitState,
  ExponentialBackoff,
  handleWhen,
  type CircuitBreakerPolicy,
} from 'cockatiel';
import { abortable } from '../backends/abortable.ts';
import { SvcError, type ErrorCode } from '../protocol/errors.ts';
import type { ProviderHealth } from '../protocol/records.ts';

/** A caller's deadline counts as a provider failure after this much silence. */
export const PATIENCE_MS = 30_000;

const FAILURES = 5;
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 60_000;

const IS_FAILURE: ReadonlySet<ErrorCode> = new Set(['PROVIDER_FAILED', 'ENGINE_CRASHED', 'NOT_READY', 'TIMEOUT']);

/** Wraps a failure that the provider did not cause, which does not count. */
class Excused extends Error {
  constructor(failure: unknown) {
    super('excused', { cause: failure });
  }
}

/** True if an open circuit refused the request. */
export function isLeftAlone(error: SvcError): boolean {
  return error.cause instanceof BrokenCircuitError;
}

export class Circuit {
  readonly #name: string;
  readonly #breaker: CircuitBreakerPolicy;
  /** The request that tries the provider in half-open state; never rejects. */
  #trial: Promise<unknown> | null = null;
  #failures = 0;
  #lastError: SvcError | null = null;
  #checkedAt: string | null = null;
  #changedAt: string | null = null;
  #state: ProviderHealth['state'] = 'unknown';

  constructor(name: string) {
    this.#name = name;
    this.#breaker = circuitBreaker(
      handleWhen((error) => this.#counts(error)),
      {
        breaker: { state: null, success: () => undefined, failure: () => this.#failures + 1 >= FAILURES },
        halfOpenAfter: new ExponentialBackoff({ initialDelay: FIRST_PAUSE_MS, maxDelay: LONGEST_PAUSE_MS }),
      },
    );
  }

  /**
   * Rejects with NOT_READY, without calling `act`, while the circuit is open. `isExcused` is called when `act` has
   * failed: true if the provider did not cause it. `signal` ends the wait for another request that tries the provider.
   */
  async run<Result>(act: () => Promise<Result>, isExcused: () => boolean, signal: AbortSignal): Promise<Result> {
    while (this.#trial !== null) await abortable(this.#trial, signal);
    try {
      return await this.#execute(() =>
        act().catch((error: unknown) => {
          throw isExcused() ? new Excused(error) : error;
        }),
      );
    } catch (error) {
      if (error instanceof Excused) throw error.cause;
      if (error instanceof BrokenCircuitError) {
        throw new SvcError(
          'NOT_READY',
          `${this.#name} failed ${String(this.#failures)} times in a row; requests to it are paused (circuit open)`,
          {
            hint: `find the cause: svc provider test ${this.#name}`,
            retryAfterSeconds: 1,
            cause: error,
          },
        );
      }
      this.#note(SvcError.from(error));
      throw error;
    }
  }

  /** Records a complete answer. */
  finished(): void {
    this.#note(null);
  }

  /** Records an answer that broke off after it had begun. */
  broke(error: SvcError): void {
    this.run(
      () => Promise.reject(error),
      () => false,
      new AbortController().signal,
    ).catch(() => undefined);
  }

  health(): ProviderHealth {
    return {
      name: this.#name,
      state: this.#state,
      reason: this.#lastError === null ? null : this.#lastError.code,
      consecutive_failures: this.#failures,
      last_checked_at: this.#checkedAt,
      last_changed_at: this.#changedAt,
    };
  }

  /** Notes the request if it is the one that tries the provider. REQUIRES: no other one tries it. */
  #execute<Result>(act: () => Promise<Result>): Promise<Result> {
    const result = this.#breaker.execute(act);
    if (this.#breaker.state === CircuitState.HalfOpen) {
      this.#trial = result
        .catch(() => undefined)
        .then(() => {
          this.#trial = null;
        });
    }
    return result;
  }

  /**
   * In half-open state a trial that was cancelled, or that the budget refused, counts as a failure too, because it proves
   * nothing.
   */
  #counts(thrown: unknown): boolean {
    const isTrial = this.#breaker.state === CircuitState.HalfOpen;
    if (thrown instanceof Excused) return isTrial;
    const { code } = SvcError.from(thrown);
    return IS_FAILURE.has(code) || (code === 'CANCELLED' && isTrial);
  }

  #note(error: SvcError | null): void {
    if (error?.code === 'CANCELLED') return;
    const failed = error !== null && (IS_FAILURE.has(error.code) || error.code === 'PROVIDER_AUTH');
    this.#checkedAt = new Date().toISOString();
    this.#failures = failed ? this.#failures + 1 : 0;
    this.#lastError = failed ? error : null;
    const state = failed ? 'unhealthy' : 'healthy';
    if (state !== this.#state) this.#changedAt = this.#checkedAt;
    this.#state = state;
  }
}

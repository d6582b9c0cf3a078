/**
 * Whether a provider is worth asking. After FAILURES in a row it is left alone, each time for longer;
 * then one request tries it, and the others wait for its first word. A failure is forgotten when an
 * answer has come to its end: one that breaks off in the middle each time is no good either. What the caller did wrong,
 * and what says that the provider is alive (it is busy, it wants another key), is no failure. Nor is a deadline that the
 * caller set: with deadlines of a few milliseconds any client could close a provider to all others. It counts only
 * where the provider had sent nothing for PATIENCE_MS.
 */
import {
  BrokenCircuitError,
  circuitBreaker,
  CircuitState,
  ExponentialBackoff,
  handleWhen,
  type CircuitBreakerPolicy,
} from 'cockatiel';
import { SvcError, type ErrorCode } from '../protocol/errors.ts';
import type { ProviderHealth } from '../protocol/records.ts';

/** A caller's deadline that passes after so much silence says something of the provider. */
export const PATIENCE_MS = 30_000;

const FAILURES = 5;
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 60_000;

const IS_FAILURE: ReadonlySet<ErrorCode> = new Set(['PROVIDER_FAILED', 'ENGINE_CRASHED', 'NOT_READY', 'TIMEOUT']);

/** A failure that is the caller's doing: it leaves the circuit as it is. */
class Excused extends Error {
  constructor(failure: unknown) {
    super('excused', { cause: failure });
  }
}

/** Whether `error` is a circuit's, which did not let a request through. */
export function isLeftAlone(error: SvcError): boolean {
  return error.cause instanceof BrokenCircuitError;
}

export class Circuit {
  readonly #name: string;
  readonly #breaker: CircuitBreakerPolicy;
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
   * Rejects with NOT_READY, without having called `act`, while the provider is left alone. `isExcused` is called when
   * `act` has failed: true if that was the caller's doing.
   */
  async run<Result>(act: () => Promise<Result>, isExcused: () => boolean): Promise<Result> {
    try {
      return await this.#breaker.execute(() =>
        act().catch((error: unknown) => {
          throw isExcused() ? new Excused(error) : error;
        }),
      );
    } catch (error) {
      if (error instanceof Excused) throw error.cause;
      if (error instanceof BrokenCircuitError) {
        throw new SvcError(
          'NOT_READY',
          `${this.#name} failed ${String(this.#failures)} times in a row and is left alone for now`,
          {
            hint: `try it: svc provider test ${this.#name}`,
            retryAfterSeconds: 1,
            cause: error,
          },
        );
      }
      this.#note(SvcError.from(error));
      throw error;
    }
  }

  /** An answer has come to its end. */
  finished(): void {
    this.#note(null);
  }

  /** An answer that had begun broke off. */
  broke(error: SvcError): void {
    this.run(
      () => Promise.reject(error),
      () => false,
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

  /** Somebody who leaves while the one request tries the provider has found out nothing. */
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

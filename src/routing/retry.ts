/**
 * Whether, and when, what failed is asked for once more. Only before the first byte of an answer, only
 * what may succeed without a change, and only within a budget over all requests: when most requests
 * fail, asking again makes it worse (the budget is gRPC's retry throttling: github.com/grpc/proposal,
 * A6, "Throttling Retry Attempts").
 */
import type { SvcError } from '../protocol/errors.ts';

/** Of one candidate, the first included. */
const ATTEMPTS = 3;
const FIRST_WAIT_MS = 200;
/** A provider that asks for longer is not waited for. */
const LONGEST_WAIT_MS = 20_000;
/** The same while another candidate could answer at once. */
const LONGEST_WAIT_WITH_ALTERNATIVE_MS = 500;

const MOST_TOKENS = 10;
const TOKENS_PER_SUCCESS = 0.1;

export class RetryBudget {
  #tokens = MOST_TOKENS;

  succeeded(): void {
    this.#tokens = Math.min(MOST_TOKENS, this.#tokens + TOKENS_PER_SUCCESS);
  }

  /** Spends a token of it; while less than half is left, nothing is asked for again. */
  failed(): boolean {
    this.#tokens = Math.max(0, this.#tokens - 1);
    return this.#tokens > MOST_TOKENS / 2;
  }
}

/** Milliseconds to wait before the next attempt; null: there is none. `tried` counts from 1. */
export function retryDelay(error: SvcError, tried: number, hasAlternative: boolean): number | null {
  if (!error.retryable || tried >= ATTEMPTS) return null;
  // Half of it is chance: those that failed together do not come back together.
  const backoff = FIRST_WAIT_MS * 2 ** (tried - 1) * (0.5 + Math.random() / 2);
  const wait = error.retryAfterSeconds === undefined ? backoff : error.retryAfterSeconds * 1000;
  return wait > (hasAlternative ? LONGEST_WAIT_WITH_ALTERNATIVE_MS : LONGEST_WAIT_MS) ? null : wait;
}

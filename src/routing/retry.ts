/**
 * Retry policy. A request is retried only before the first byte of its answer, only after a retryable error, and only
 * within a budget over all requests: when most requests fail, retries make it worse (the budget is gRPC's retry
 * throttling: github.com/grpc/proposal, A6, "Throttling Retry Attempts").
 */
import type { SvcError } from '../protocol/errors.ts';

/** Attempts per candidate, including the first. */
const ATTEMPTS = 3;
const FIRST_WAIT_MS = 200;
/** No retry if the provider asks for a longer wait. */
const LONGEST_WAIT_MS = 20_000;
/** The same limit if another candidate could answer at once. */
const LONGEST_WAIT_WITH_ALTERNATIVE_MS = 500;

const MOST_TOKENS = 10;
const TOKENS_PER_SUCCESS = 0.1;

export class RetryBudget {
  #tokens = MOST_TOKENS;

  succeeded(): void {
    this.#tokens = Math.min(MOST_TOKENS, this.#tokens + TOKENS_PER_SUCCESS);
  }

  /** Spends a token. Returns true if a retry is allowed: more than half of the tokens are left. */
  failed(): boolean {
    this.#tokens = Math.max(0, this.#tokens - 1);
    return this.#tokens > MOST_TOKENS / 2;
  }
}

/** Milliseconds to wait before the next attempt; null: no retry. `tried` counts from 1. */
export function retryDelay(error: SvcError, tried: number, hasAlternative: boolean): number | null {
  if (!error.retryable || tried >= ATTEMPTS) return null;
  // 50 to 100 % jitter, so that requests that failed together do not retry together.
  const backoff = FIRST_WAIT_MS * 2 ** (tried - 1) * (0.5 + Math.random() / 2);
  const wait = error.retryAfterSeconds === undefined ? backoff : error.retryAfterSeconds * 1000;
  return wait > (hasAlternative ? LONGEST_WAIT_WITH_ALTERNATIVE_MS : LONGEST_WAIT_MS) ? null : wait;
}

/** How sure a model is of what it says. */
import * as assert from 'uvu/assert';

interface Token {
  readonly top: readonly { readonly logprob: number }[];
}

/** Least difference between the log probabilities of the best token and the second best. REQUIRES: both are asked for. */
export function leastMargin(tokens: readonly Token[]): number {
  assert.ok(tokens.length > 0, 'log probabilities were asked for');
  const margins = tokens.map(({ top }) => {
    const [first = NaN, second = NaN] = top.map(({ logprob }) => logprob).sort((a, b) => b - a);
    return first - second;
  });
  return Math.min(...margins);
}

/**
 * The order of cells in the cache and the rows of a batch change how a CPU rounds, and so a log probability by up to
 * 0.02 in the synthetic models. A text that must be the same alone and among others has no token less sure than this.
 */
const LEAST_MARGIN = 0.1;

/** Asserts that rounding cannot change the text of `tokens`. */
export function assertSure(tokens: readonly Token[], what: string): void {
  const margin = leastMargin(tokens);
  assert.ok(margin >= LEAST_MARGIN, `${what}: rounding may change a token (margin ${String(margin)})`);
}

/** Scenarios and their common parts. A scenario sends requests to one server and returns one or more figures. */
import { ask, type Answer, type Question } from './ask.ts';
import type { Server, ServerName } from './servers/server.ts';

/** A target: for svc's figure divided by that server's, or for svc's figure itself. */
export type Bar = { readonly server: ServerName; readonly ratio: number } | { readonly limit: number };

export interface Figure {
  readonly name: string;
  readonly unit: 'tokens/s' | 'ms' | 'MB' | 'ratio';
  readonly isMoreBetter: boolean;
  /** Targets. Empty: reported only. */
  readonly bars: readonly Bar[];
}

export interface Scenario {
  readonly name: string;
  readonly figures: readonly Figure[];
  readonly servers: readonly ServerName[];
  /** Approximate duration of one turn on two cores, to estimate the remaining time. */
  readonly seconds: number;
  /** True: measured once, because the figure does not vary or takes long. */
  readonly isOnce?: boolean;
  /** Returns values in the order of `figures`; null: not applicable to this server. Rejects if the server fails. */
  measure(server: Server): Promise<readonly (number | null)[]>;
}

export const speed = (name: string, ...bars: Bar[]): Figure => ({ name, unit: 'tokens/s', isMoreBetter: true, bars });
export const time = (name: string, ...bars: Bar[]): Figure => ({ name, unit: 'ms', isMoreBetter: false, bars });

export const user = (content: string, maxTokens: number): Question => ({
  messages: [{ role: 'user', content }],
  maxTokens,
});

/** As Promise.all, but rejects only after all promises have settled. */
export async function settled<Values extends readonly unknown[]>(promises: {
  readonly [Index in keyof Values]: Promise<Values[Index]>;
}): Promise<Values> {
  const results = await Promise.allSettled(promises);
  const failed = results.find(({ status }) => status === 'rejected');
  if (failed !== undefined) throw (failed as PromiseRejectedResult).reason;
  return results.map((result) => (result as PromiseFulfilledResult<unknown>).value) as unknown as Values;
}

/** Sends all questions at once. */
export async function together(
  server: Server,
  questions: readonly Question[],
): Promise<{ readonly answers: readonly Answer[]; readonly tokensPerSecond: number }> {
  const from = performance.now();
  const answers = await settled<Answer[]>(questions.map((question) => ask(server, question)));
  const seconds = (performance.now() - from) / 1000;
  return { answers, tokensPerSecond: answers.reduce((sum, { outputTokens }) => sum + outputTokens, 0) / seconds };
}

/** NaN if `values` is empty. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = (sorted.length - 1) / 2;
  return ((sorted[Math.floor(middle)] ?? NaN) + (sorted[Math.ceil(middle)] ?? NaN)) / 2;
}

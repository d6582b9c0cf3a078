/** What the ledger keeps of an answer. */
import type { Caller } from '../protocol/caller.ts';
import type { FinishEvent } from '../protocol/generate.ts';
import { hasQuota } from '../protocol/keys.ts';
import type { Budgets } from './budgets.ts';
import type { AnsweredLine } from './ledger.ts';
import type { Quotas } from './quotas.ts';

/** The parts of the router's outcome that the ledger reads. */
export interface Answered extends Pick<AnsweredLine, 'provider' | 'model' | 'outcome'> {
  readonly kind: 'generation' | 'embedding' | 'reranking' | 'tokenizing';
  readonly caller: Caller;
  readonly finish: FinishEvent | null;
  readonly estimated?: { readonly input_tokens: number; readonly output_tokens: number };
}

type Counts = Pick<AnsweredLine, 'input_tokens' | 'cached_tokens' | 'output_tokens' | 'estimated'>;

const NONE: Counts = { input_tokens: null, cached_tokens: null, output_tokens: null };

export function usageOf(answered: Answered): Omit<AnsweredLine, 'event' | 'at'> {
  const { provider, caller, model, outcome } = answered;
  return { provider, key: caller.name, model, outcome, ...countsOf(answered) };
}

/** Tokens that are only counted do not count as usage. */
function countsOf({ kind, finish, estimated }: Answered): Counts {
  if (kind === 'tokenizing') return NONE;
  if (finish?.usage) {
    const { input_tokens, cached_tokens, output_tokens } = finish.usage;
    return { input_tokens, cached_tokens, output_tokens };
  }
  return estimated === undefined ? NONE : { ...estimated, cached_tokens: null, estimated: true };
}

/** Counts an answer in the ledger, for the budget of its provider and the quota of its caller. Never rejects. */
export async function countAnswer(answered: Answered, budgets: Budgets, quotas: Quotas): Promise<void> {
  const usage = usageOf(answered);
  quotas.answered(usage);
  await budgets.answered(usage, hasQuota(answered.caller.limits ?? {}));
}

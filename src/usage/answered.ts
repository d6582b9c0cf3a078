/** What the ledger keeps of an answer. */
import type { Caller } from '../protocol/caller.ts';
import type { FinishEvent } from '../protocol/generate.ts';
import type { AnsweredLine } from './ledger.ts';

/** The parts of the router's outcome that the ledger reads. */
interface Answered extends Pick<AnsweredLine, 'provider' | 'model' | 'outcome'> {
  readonly kind: 'generation' | 'embedding' | 'reranking' | 'tokenizing';
  readonly caller: Caller;
  readonly finish: FinishEvent | null;
}

/** Tokens that are only counted are no usage. */
export function usageOf(answered: Answered): Omit<AnsweredLine, 'event' | 'at'> {
  const { kind, provider, caller, model, outcome, finish } = answered;
  const {
    input_tokens = null,
    cached_tokens = null,
    output_tokens = null,
  } = (kind === 'tokenizing' ? null : finish?.usage) ?? {};
  return { provider, key: caller.name, model, outcome, input_tokens, cached_tokens, output_tokens };
}

/** What the ledger keeps of an answer (usage/ledger.ts). */
import type { Outcome } from '../routing/router.ts';
import type { AnsweredLine } from '../usage/ledger.ts';

/** Tokens that are only counted are no usage. */
export function usageOf({
  kind,
  provider,
  caller,
  model,
  outcome,
  finish,
}: Outcome): Omit<AnsweredLine, 'event' | 'at'> {
  const {
    input_tokens = null,
    cached_tokens = null,
    output_tokens = null,
  } = (kind === 'tokenizing' ? null : finish?.usage) ?? {};
  return { provider, key: caller.name, model, outcome, input_tokens, cached_tokens, output_tokens };
}

/** Token counts, for Anthropic's API in both directions. Its `input_tokens` has no cached tokens; ours has them. */
import * as v from 'valibot';
import type { Usage } from '../generate.ts';

const count = v.nullish(v.number());

/** Schemas of the fields of `usage`. In a stream, absent counts are unchanged since the event before. */
export const COUNTS = {
  input_tokens: count,
  output_tokens: count,
  cache_read_input_tokens: count,
  cache_creation_input_tokens: count,
};
export type Counts = { [Name in keyof typeof COUNTS]?: number | null | undefined };

/** null: the provider has not reported both numbers. */
export function fromCounts(counts: Counts): Usage | null {
  const { input_tokens: input, output_tokens: output } = counts;
  if (typeof input !== 'number' || typeof output !== 'number') return null;
  const cached = counts.cache_read_input_tokens ?? 0;
  const written = counts.cache_creation_input_tokens ?? 0;
  return { input_tokens: input + cached + written, output_tokens: output, cached_tokens: cached };
}

/** null: not known. The API has no word for that: its clients require numbers. */
export function toCounts(usage: Usage | null): Required<Counts> {
  const { input_tokens: input, output_tokens, cached_tokens: cached } = usage ?? NONE;
  return {
    input_tokens: input - cached,
    output_tokens,
    cache_read_input_tokens: cached,
    // Every prompt is cached, at no price.
    cache_creation_input_tokens: 0,
  };
}

const NONE: Usage = { input_tokens: 0, output_tokens: 0, cached_tokens: 0 };

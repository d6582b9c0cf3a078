/** What clients are told of a model's file, from its header. */
import { readGgufHeader } from '../../models/gguf/gguf.ts';
import type { GgufEntry } from '../../models/gguf/gguf-values.ts';
import { hasInfillTokens } from '../../models/gguf/infill-tokens.ts';
import { recommendedSampling } from '../../models/gguf/recommended-sampling.ts';
import type { Metadata } from '../../protocol/ollama/show.ts';
import type { Sampling } from '../../protocol/generate.ts';

export interface HeaderFacts {
  /** Without the chat template. */
  readonly metadata: Metadata;
  /** Jinja; null: the file has none. */
  readonly template: string | null;
  /** The vocabulary has the tokens of a gap in a text. */
  readonly fillsGaps: boolean;
  /** Settings that the file recommends. */
  readonly sampling: Partial<Sampling>;
}

const TEMPLATE = 'tokenizer.chat_template';

/** Throws MODEL_INVALID, or the reason why the file cannot be read. */
export async function readHeaderFacts(path: string): Promise<HeaderFacts> {
  const { metadata } = await readGgufHeader(path);
  const { [TEMPLATE]: template = null, ...others } = plain(metadata);
  return {
    metadata: others,
    template: typeof template === 'string' ? template : null,
    fillsGaps: await hasInfillTokens(path, metadata),
    sampling: recommendedSampling(metadata),
  };
}

/** Characters of all texts, and some for each entry. */
export function textOf({ metadata, template }: HeaderFacts): number {
  return Object.entries(metadata).reduce(
    (sum, [key, value]) => sum + key.length + (typeof value === 'string' ? value.length : 16),
    template?.length ?? 0,
  );
}

/** The values that JSON can have; null for lists. */
function plain(metadata: ReadonlyMap<string, GgufEntry>): Metadata {
  return Object.fromEntries(
    Array.from(metadata, ([key, { value }]) => [
      key,
      typeof value === 'object' ? null : typeof value === 'bigint' ? Number(value) : value,
    ]),
  );
}

/** What a load finds a model able to do, and what that makes of the capabilities that its file declares. */
import type { Capability } from './records.ts';

/** The capabilities that every load tries, with the model's own template and files. */
export const TRIED_CAPABILITIES = ['embedding', 'tools', 'thinking'] as const satisfies readonly Capability[];
export type TriedCapability = (typeof TRIED_CAPABILITIES)[number];

/** By the engine's names. */
export interface LoadFindings {
  readonly makes_embeddings: boolean;
  readonly calls_tools: boolean;
  readonly thinks: boolean;
}

export function foundBy({ makes_embeddings, calls_tools, thinks }: LoadFindings): TriedCapability[] {
  const isFound = { embedding: makes_embeddings, tools: calls_tools, thinking: thinks };
  return TRIED_CAPABILITIES.filter((each) => isFound[each]);
}

/** The fields of a model's record after a load. */
export function triedFields(
  declared: readonly Capability[],
  found: readonly TriedCapability[],
): { readonly capabilities: Capability[]; readonly capabilities_tried: true } {
  // A load confirms embeddings and cannot add them: an engine of a reranker makes vectors, too.
  const confirmed = declared.filter((each) => each !== 'embedding' || found.includes(each));
  return {
    capabilities: [...confirmed, ...found.filter((each) => each !== 'embedding')],
    capabilities_tried: true,
  };
}

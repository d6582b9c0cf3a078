/** Policy terms shared by config and routing. */

/** Conditions under which a request falls back to the policy's next candidate. */
export const FALLBACK_CONDITIONS = ['unavailable', 'overloaded', 'context_too_long', 'model_missing'] as const;
export type FallbackCondition = (typeof FALLBACK_CONDITIONS)[number];

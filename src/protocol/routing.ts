/** What the config and routing both say of policies. */

/** Why a request may go on to the next candidate of a policy. */
export const FALLBACK_CONDITIONS = ['unavailable', 'overloaded', 'context_too_long', 'model_missing'] as const;
export type FallbackCondition = (typeof FALLBACK_CONDITIONS)[number];

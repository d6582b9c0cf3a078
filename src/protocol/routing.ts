/** Terms of routing shared with the config. */

/** Name of a provider, as used in `provider/model` and in names of settings. */
export const PROVIDER_NAME = /^(?!local$)[a-z0-9][a-z0-9-]{0,63}$/;

/** Conditions under which a request falls back to the policy's next candidate. */
export const FALLBACK_CONDITIONS = ['unavailable', 'overloaded', 'context_too_long', 'model_missing'] as const;
export type FallbackCondition = (typeof FALLBACK_CONDITIONS)[number];

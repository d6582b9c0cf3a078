/**
 * Id of the built-in model in every version; no other model may have it. In a file of its own, because every `svc run`
 * loads it.
 */
export const BUILTIN_ID = 'builtin';

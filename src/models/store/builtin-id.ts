/** Names that no other model may have. In a file of their own, because every `svc run` loads it. */

/** The built-in model, in every version. */
export const BUILTIN_ID = 'builtin';

/** In requests, means the default model. */
export const DEFAULT_NAME = 'default';

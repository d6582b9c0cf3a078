/**
 * Differences between Claude generations on the wire, derived from the model's name: the API has one schema, but each
 * model refuses fields of other generations. As documented in November 2026.
 */
export interface ClaudeGeneration {
  /** Uses `thinking: adaptive` with an effort (4.6 and later) instead of a token budget. */
  readonly thinksByItself: boolean;
  /** Accepts temperature, top_p and top_k (up to 4.6). */
  readonly samples: boolean;
}

/** Matches `claude-3-7-sonnet-20250219`, `claude-opus-4-6`, `claude-sonnet-5`; an eight-digit date is not a version. */
const VERSION = /claude(?:(?!claude)\D)*(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)/;

/** A Claude without a version counts as the newest; other models use this API like Claude before 4.6. */
export function claudeGeneration(model: string): ClaudeGeneration {
  if (!model.includes('claude')) return { thinksByItself: false, samples: true };
  const [found, major, minor = '0'] = VERSION.exec(model) ?? [];
  const version = found === undefined ? Infinity : Number(major) * 100 + Number(minor);
  return { thinksByItself: version >= 406, samples: version <= 406 };
}

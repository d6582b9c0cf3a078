/**
 * In what the generations of Claude differ on the wire, read from the model's name: the API has one form for
 * all, and each model refuses the words of the others. As documented in November 2026.
 */
export interface ClaudeGeneration {
  /** `thinking: adaptive` with an effort (4.6 and later), not a number of tokens. */
  readonly thinksByItself: boolean;
  /** Takes temperature, top_p and top_k (until 4.6). */
  readonly samples: boolean;
}

/** `claude-3-7-sonnet-20250219`, `claude-opus-4-6`, `claude-sonnet-5`; an eight-digit date is no version. */
const VERSION = /claude(?:(?!claude)\D)*(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)/;

/** A Claude without a version is of the newest; whatever else speaks this API does so as Claude did before 4.6. */
export function claudeGeneration(model: string): ClaudeGeneration {
  if (!model.includes('claude')) return { thinksByItself: false, samples: true };
  const [found, major, minor = '0'] = VERSION.exec(model) ?? [];
  const version = found === undefined ? Infinity : Number(major) * 100 + Number(minor);
  return { thinksByItself: version >= 406, samples: version <= 406 };
}

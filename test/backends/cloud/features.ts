/**
 * Declares, beside the test that shows it, which features svc supports with each provider API. The table in
 * docs/providers.md is generated from these declarations (test/backends/cloud/feature-table.ts), so the API and the
 * feature name must be literals.
 *
 *   const { feature, refused } = featuresOf('messages', test);
 *   feature('tools', 'are sent with their schema', () => { … });
 *   refused('seed', () => { … });
 */
import type { Api } from '../../../src/backends/cloud/provider.ts';

/** Rows of the table, in order. */
export const FEATURES = [
  'text',
  'system messages',
  'several turns',
  'images',
  'images by URL',
  'tools',
  'tool choice',
  'at most one tool call',
  'tool results',
  'images in tool results',
  'reasoning effort',
  'reasoning output',
  'any JSON object',
  'JSON schema',
  'grammar',
  'stop strings',
  'max_tokens',
  'temperature',
  'top_p',
  'top_k',
  'min_p',
  'repeat_penalty',
  'frequency_penalty',
  'presence_penalty',
  'other samplers',
  'seed',
  'logit_bias',
  'logprobs',
  'usage',
  'cached tokens',
  'finish reasons',
  'errors in the stream',
  'interrupted answers',
  'list of models',
  'embeddings',
  'token ids to embed',
  'reranking',
] as const;
export type Feature = (typeof FEATURES)[number];

/** Settings that only local models read, each with an effect and without one. */
export const LOCAL_SAMPLING = [
  { name: 'dynatemp_range', at_work: { dynatemp_range: 0.5 }, idle: { dynatemp_range: 0 } },
  { name: 'typical_p', at_work: { typical_p: 0.9 }, idle: { typical_p: 1 } },
  { name: 'xtc_probability', at_work: { xtc_probability: 0.5 }, idle: { xtc_probability: 0 } },
  { name: 'mirostat', at_work: { mirostat: 2 }, idle: { mirostat: 0 } },
  { name: 'dry_multiplier', at_work: { dry_multiplier: 0.8 }, idle: { dry_multiplier: 0 } },
] as const;

type Body = () => void | Promise<void>;
type Test = (name: string, body: Body) => void;

interface Declare {
  /** The API has the feature; `body` shows it. */
  readonly feature: (feature: Feature, what: string, body: Body) => void;
  /** The API lacks the feature; `body` shows that svc rejects it by name. */
  readonly refused: (feature: Feature, body: Body) => void;
}

export function featuresOf(api: Api, test: Test): Declare {
  return {
    feature: (feature, what, body) => {
      test(`${api}, ${feature}: ${what}`, body);
    },
    refused: (feature, body) => {
      test(`${api}, ${feature}: is rejected by name`, body);
    },
  };
}

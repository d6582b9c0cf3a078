/**
 * Declares, beside the test that shows it, which features svc supports with each provider API. The table in
 * docs/providers.md is generated from these declarations (test/backends/cloud/feature-table.ts), so the API and the feature
 * name must be literals.
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
  'seed',
  'logit_bias',
  'logprobs',
  'usage',
  'cached tokens',
  'finish reasons',
  'errors in the stream',
  'interrupted answers',
  'list of models',
] as const;
export type Feature = (typeof FEATURES)[number];

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

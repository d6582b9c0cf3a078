/**
 * What svc can do with each API of providers, declared where a test shows it. The table in
 * docs/providers.md is made of these declarations (scripts/feature-table.ts), so they are written out:
 * the API and the name of the feature as literals.
 *
 *   const { feature, refused } = featuresOf('messages', test);
 *   feature('tools', 'are told with their schema', () => { … });
 *   refused('seed', () => { … });
 */
import type { Api } from '../../../src/backends/cloud/provider.ts';

/** The rows of the table, in its order. */
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
  'reasoning told',
  'JSON of any shape',
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
  'errors inside the stream',
  'answers that break off',
  'list of models',
] as const;
export type Feature = (typeof FEATURES)[number];

type Body = () => void | Promise<void>;
type Test = (name: string, body: Body) => void;

interface Declare {
  /** The API has it, and `body` shows so. */
  readonly feature: (feature: Feature, what: string, body: Body) => void;
  /** The API has no words for it, and `body` shows that svc refuses it by name. */
  readonly refused: (feature: Feature, body: Body) => void;
}

export function featuresOf(api: Api, test: Test): Declare {
  return {
    feature: (feature, what, body) => {
      test(`${api}, ${feature}: ${what}`, body);
    },
    refused: (feature, body) => {
      test(`${api}, ${feature}: is refused by name`, body);
    },
  };
}

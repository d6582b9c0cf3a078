/** Decode speed of answers constrained by a JSON schema. */
import { ask, decodeSpeed } from '../ask.ts';
import { user, type Scenario } from '../scenario.ts';
import { words } from '../words.ts';

const TOKENS = 128;

const SCHEMA = {
  type: 'json_schema',
  json_schema: {
    name: 'people',
    strict: true,
    schema: {
      type: 'array',
      minItems: 100,
      items: {
        type: 'object',
        properties: {
          name: { type: 'string', maxLength: 12 },
          age: { type: 'integer', minimum: 1, maximum: 99 },
          married: { type: 'boolean' },
        },
        required: ['name', 'age', 'married'],
        additionalProperties: false,
      },
    },
  },
};

/** Compares the same prompt with and without a schema. */
export const schema: Scenario = {
  name: 'output by a JSON schema',
  servers: ['svc'],
  figures: [{ name: 'decode, against free output', unit: 'ratio', isMoreBetter: true, bars: [{ limit: 0.95 }] }],
  seconds: 10,
  measure: async (server) => {
    const question = user(words(12), TOKENS);
    const free = decodeSpeed(await ask(server, question));
    const bound = decodeSpeed(await ask(server, { ...question, more: { response_format: SCHEMA } }));
    return [bound / free];
  },
};

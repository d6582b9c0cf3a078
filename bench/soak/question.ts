/** Random requests: lengths, sampling, schemas, stop strings, priorities. */
import { randomInt } from 'node:crypto';
import type { Format, GenerateRequest, Message, Sampling } from '../../src/protocol/generate.ts';
import { words } from '../peers/words.ts';
import { chance, magnitude, pick } from './random.ts';

/** KV-cache cells of the engine: too few for all clients' prompts at once, so that generations are preempted. */
export const CELLS = 2048;
const LONGEST_PROMPT = 600;
const MOST_TOKENS = 48;

/** System prompts that many requests share. */
const SYSTEMS = Array.from({ length: 6 }, (_, index) => words(40 * (index + 1)));

const SCHEMAS: readonly Record<string, unknown>[] = [
  { type: 'object', properties: { name: { type: 'string', maxLength: 8 } }, required: ['name'] },
  { type: 'array', items: { type: 'integer', minimum: 0, maximum: 999 }, maxItems: 6 },
  { enum: ['red', 'green', 'blue'] },
  { anyOf: [{ type: 'boolean' }, { type: 'null' }, { type: 'number' }] },
];

/** Returns a request in the format of the control socket. */
export function randomQuestion(): GenerateRequest {
  return {
    messages: randomMessages(),
    max_tokens: magnitude(1, MOST_TOKENS),
    sampling: randomSampling(),
    stop: chance(0.2) ? [pick(['e', ' the', '\n', 'tion'])] : [],
    ...(chance(0.15) ? { format: randomFormat() } : {}),
    ...(chance(0.1) ? { logprobs: randomInt(6) } : {}),
    ...(chance(0.3) ? { priority: pick(['interactive', 'batch'] as const) } : {}),
  };
}

function randomMessages(): Message[] {
  const messages: Message[] = chance(0.5) ? [{ role: 'system', content: pick(SYSTEMS) }] : [];
  for (let turns = chance(0.2) ? 2 : 0; turns > 0; turns -= 1) {
    messages.push({ role: 'user', content: words(10) }, { role: 'assistant', content: words(20) });
  }
  return [...messages, { role: 'user', content: words(magnitude(1, LONGEST_PROMPT)) }];
}

function randomSampling(): Sampling {
  if (chance(0.3)) return { temperature: 0 };
  return {
    temperature: Math.random() * 2,
    ...(chance(0.5) ? { seed: randomInt(2 ** 32) } : {}),
    ...(chance(0.2) ? { top_k: randomInt(100) } : {}),
    ...(chance(0.2) ? { top_p: Math.random() } : {}),
    ...(chance(0.1) ? { repeat_penalty: 1 + Math.random() } : {}),
    ...(chance(0.1) ? { logit_bias: [[1000 + randomInt(1000), -5]] } : {}),
  };
}

function randomFormat(): Format {
  if (chance(0.3)) return { type: 'json_object' };
  if (chance(0.3)) return { type: 'grammar', grammar: 'root ::= ("- " [a-z ]{2,12} "\\n")+' };
  // Every other schema is new, so that caches evict entries.
  const schema = pick(SCHEMAS);
  return {
    type: 'json_schema',
    schema: chance(0.5) ? schema : { type: 'object', properties: { [`k${randomInt(1e9)}`]: schema } },
  };
}

/** Converts a request to OpenAI's API, with llama-server's fields where OpenAI has none. */
export function inWordsOfOpenAi({ sampling, stop, format, logprobs, ...rest }: GenerateRequest): object {
  const { logit_bias: biases, ...others } = sampling;
  return {
    ...rest,
    ...others,
    ...(biases === undefined ? {} : { logit_bias: Object.fromEntries(biases) as object }),
    stop,
    ...(format === undefined ? {} : formatOf(format)),
    ...(logprobs === undefined ? {} : { logprobs: true, top_logprobs: logprobs }),
  };
}

function formatOf(format: Format): object {
  switch (format.type) {
    case 'json_object':
      return { response_format: { type: 'json_object' } };
    case 'json_schema':
      return { response_format: { type: 'json_schema', json_schema: { name: 'soak', schema: format.schema } } };
    case 'grammar':
      return { grammar: format.grammar };
  }
}

/** Converts a request to the gRPC API of proto/. */
export function inWordsOfGrpc({ sampling, format, ...rest }: GenerateRequest): object {
  const { logit_bias: biases, ...others } = sampling;
  const schema = format?.type === 'json_schema' ? { schema: JSON.stringify(format.schema) } : {};
  return {
    ...rest,
    sampling: { ...others, logit_bias: (biases ?? []).map(([token, bias]) => ({ token, bias })) },
    ...(format === undefined ? {} : { format: { ...format, ...schema } }),
  };
}

/** `POST /api/embed` and the older `/api/embeddings`: converts Ollama's requests to ours. */
import * as v from 'valibot';
import { parseEmbedRequest, EmbedRequestSchema, type EmbedRequest } from '../embed.ts';
import { given } from '../given.ts';
import { KeepAliveSchema } from '../keep-alive.ts';
import { LIMITS } from '../limits.ts';
import { invalid, parse } from '../validate.ts';
import { inWholeInput } from './error.ts';
import { nameSchema } from './names.ts';
import { toSettings } from './options.ts';
import { fieldsOf } from './request.ts';

export interface OllamaEmbedCall {
  /** As the client spells it; the answer repeats it. */
  readonly model: string;
  /**
   * The texts in order, without `model`: Ollama has no limit on their number. Empty: no text; the model is only loaded
   * or, with a `keepAliveSeconds` of 0, unloaded.
   */
  readonly requests: readonly EmbedRequest[];
  readonly keepAliveSeconds: number | undefined;
}

const { dimensions, route } = EmbedRequestSchema.entries;

export const OllamaEmbedSchema = v.object({
  model: nameSchema,
  keep_alive: KeepAliveSchema,
  options: v.exactOptional(v.record(v.string(), v.unknown()), {}),
  /** Default true, as Ollama: cuts the end off a text that is too long, which the answer reports. */
  truncate: v.exactOptional(v.boolean(), true),
  dimensions,
  route,
});

/** Throws INVALID_REQUEST with `param`. */
export function parseOllamaEmbed(body: unknown): OllamaEmbedCall {
  const { input = [], ...fields } = fieldsOf(body);
  if (typeof input !== 'string' && !Array.isArray(input)) throw invalid('input', 'must be a string or a list');
  return toCall(fields, typeof input === 'string' ? textsOf(input) : input);
}

/** Throws INVALID_REQUEST with `param`. */
export function parseOllamaEmbeddings(body: unknown): OllamaEmbedCall {
  const { prompt = '', ...fields } = fieldsOf(body);
  return toCall(fields, textsOf(parse(v.string(), prompt, 'prompt')));
}

function textsOf(text: string): string[] {
  return text === '' ? [] : [text];
}

function toCall(fields: object, input: readonly unknown[]): OllamaEmbedCall {
  const { model, keep_alive, options, ...same } = parse(OllamaEmbedSchema, fields);
  // Checked only: none of them matters to vectors.
  toSettings(options);
  const starts = Array.from(
    { length: Math.ceil(input.length / LIMITS.embedInputs) },
    (_, at) => at * LIMITS.embedInputs,
  );
  const requests = starts.map((start) => {
    const texts = input.slice(start, start + LIMITS.embedInputs).map(notEmpty);
    // The model must not be unloaded before the last request.
    const isLast = start === starts.at(-1);
    const stay = given({ keep_alive_seconds: isLast ? keep_alive : undefined });
    try {
      return parseEmbedRequest({ ...same, input: texts, ...stay });
    } catch (error) {
      throw inWholeInput(error, start);
    }
  });
  return { model, requests, keepAliveSeconds: keep_alive };
}

/** Replaces an empty text by a space: neither models nor providers embed an input without tokens. */
function notEmpty(text: unknown): unknown {
  return text === '' ? ' ' : text;
}

/** `POST /v1/embeddings`: converts OpenAI's format to our request, and our vectors to its response, one at a time. */
import * as v from 'valibot';
import { parseEmbedRequest, type EmbedRequest } from '../embed.ts';
import type { FinishEvent } from '../generate.ts';
import { given } from '../given.ts';
import { KeepAliveSchema } from '../keep-alive.ts';
import { encodeVector } from '../streams/ndjson.ts';
import { truncatedOf } from './completion-response.ts';
import { clientFields, invalid, parse } from '../validate.ts';

const ENCODING_FORMATS = ['float', 'base64'] as const;
export type EncodingFormat = (typeof ENCODING_FORMATS)[number];

export interface EmbeddingsCall {
  readonly request: EmbedRequest;
  readonly encodingFormat: EncodingFormat;
}

export const EmbeddingsFieldsSchema = v.object({
  encoding_format: v.exactOptional(v.picklist(ENCODING_FORMATS), 'float'),
  keep_alive: KeepAliveSchema,
});

/** Ignores unknown fields; null means absent. Throws INVALID_REQUEST with `param`. */
export function parseEmbeddings(body: unknown): EmbeddingsCall {
  const { input, ...rest } = clientFields(body);
  // A single input need not be in a list.
  const isOne = typeof input === 'string' || (Array.isArray(input) && typeof input[0] === 'number');
  if (input !== undefined && !isOne && !Array.isArray(input)) throw invalid('input', 'must be a string or a list');
  const { encoding_format, keep_alive } = parse(EmbeddingsFieldsSchema, rest);
  return {
    request: parseEmbedRequest({
      ...rest,
      ...given({ keep_alive_seconds: keep_alive }),
      ...(input === undefined ? {} : { input: isOne ? [input] : input }),
    }),
    encodingFormat: encoding_format,
  };
}

/** Opening of the response, up to the list of embeddings. */
export function embeddingsHead(model: string, finish: FinishEvent): string {
  const tokens = finish.usage?.input_tokens ?? 0;
  const usage = { prompt_tokens: tokens, total_tokens: tokens };
  const head = { object: 'list', model, usage, ...truncatedOf(finish) };
  return `${JSON.stringify(head).slice(0, -1)},"data":[`;
}

/** base64 encodes 32-bit floats, little-endian. */
export function embeddingsItem(vector: Float32Array, index: number, format: EncodingFormat): string {
  const embedding = format === 'float' ? Array.from(vector) : encodeVector(vector);
  return `${index === 0 ? '' : ','}${JSON.stringify({ object: 'embedding', index, embedding })}`;
}

export const EMBEDDINGS_TAIL = ']}\n';

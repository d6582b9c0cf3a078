/** OpenAI's embeddings, also of compatible servers: `/embeddings` below the base URL. */
import * as v from 'valibot';
import type { EmbedRequest } from '../../../../protocol/embed.ts';
import { given } from '../../../../protocol/given.ts';
import { LIMITS } from '../../../../protocol/limits.ts';
import { invalid } from '../../../../protocol/validate.ts';
import { inOrder, readBody } from '../../answer.ts';
import { toVector } from '../../embeddings/vectors.ts';
import type { EmbeddingsApi } from '../../wire.ts';
import { openAiHeaders } from './openai-headers.ts';

const AnswerSchema = v.object({
  model: v.fallback(v.nullish(v.string(), null), null),
  data: v.array(
    // An instance, not v.array: there may be millions of numbers, which toVector checks.
    v.object({ index: v.number(), embedding: v.union([v.string(), v.instance<typeof Array<unknown>>(Array)]) }),
  ),
  usage: v.fallback(v.nullish(v.object({ prompt_tokens: v.pipe(v.number(), v.integer(), v.minValue(0)) }), null), null),
});

export const openAiEmbeddings: EmbeddingsApi = {
  inputs: LIMITS.embedInputs,

  request: (request, target) => ({
    path: '/embeddings',
    headers: openAiHeaders(target),
    // As OpenAI's own clients, which every compatible server knows. One that ignores it sends lists of numbers.
    body: {
      model: target.model,
      input: inputOf(request),
      encoding_format: 'base64',
      ...given({ dimensions: request.dimensions }),
    },
  }),

  read(body, count) {
    const { model, data, usage } = readBody(AnswerSchema, body);
    return {
      model,
      content: { type: 'vectors', vectors: inOrder(data, count).map(({ embedding }) => toVector(embedding)) },
      usage: usage && { input_tokens: usage.prompt_tokens, output_tokens: 0, cached_tokens: 0 },
    };
  },
};

/** The API takes texts or token ids, not both in one request. */
function inputOf({ input }: EmbedRequest): EmbedRequest['input'] {
  const isText = typeof input[0] === 'string';
  const odd = input.findIndex((each) => (typeof each === 'string') !== isText);
  if (odd === -1) return input;
  throw invalid(`input[${String(odd)}]`, 'must be of the same kind as the first: a provider takes texts or token ids');
}

/** Gemini's embeddings (`batchEmbedContents`). */
import * as v from 'valibot';
import { given } from '../../../../protocol/given.ts';
import { invalid } from '../../../../protocol/validate.ts';
import { checkCount, readBody } from '../../answer.ts';
import { toVector } from '../../embeddings/vectors.ts';
import type { EmbeddingsApi } from '../../wire.ts';
import { headers, resource } from './gemini-paths.ts';

const AnswerSchema = v.object({
  // An instance, not v.array: there may be a million numbers, which toVector checks.
  embeddings: v.array(v.object({ values: v.instance<typeof Array<unknown>>(Array) })),
  /** Sent for newer models only. */
  usageMetadata: v.fallback(
    v.nullish(v.object({ promptTokenCount: v.pipe(v.number(), v.integer(), v.minValue(0)) }), null),
    null,
  ),
});

export const geminiEmbeddings: EmbeddingsApi = {
  /** The API's limit of a batch. */
  inputs: 100,

  request(request, target) {
    const model = resource(target.model);
    const requests = request.input.map((text, index) => ({
      model,
      content: { parts: [{ text: textOf(text, index) }] },
      ...given({ outputDimensionality: request.dimensions }),
    }));
    return { path: `/${model}:batchEmbedContents`, headers: headers(target), body: { requests } };
  },

  read(body, count) {
    const { embeddings, usageMetadata } = readBody(AnswerSchema, body);
    checkCount(embeddings, count);
    return {
      model: null,
      content: { type: 'vectors', vectors: embeddings.map(({ values }) => toVector(values)) },
      usage: usageMetadata && { input_tokens: usageMetadata.promptTokenCount, output_tokens: 0, cached_tokens: 0 },
    };
  },
};

function textOf(input: string | readonly number[], index: number): string {
  if (typeof input === 'string') return input;
  throw invalid(`input[${String(index)}]`, 'must be a text: this provider does not take token ids');
}

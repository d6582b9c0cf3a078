/** Splits embedding requests that are too long for a provider's API, and joins the answers. Pure. */
import type { Collector } from '../../../protocol/collect.ts';
import type { EmbedEvent, EmbedRequest, VectorsEvent } from '../../../protocol/embed.ts';
import type { Usage } from '../../../protocol/generate.ts';
import { invalid } from '../../../protocol/validate.ts';
import { notTheApi } from '../answer.ts';
import type { EmbeddingsApi, WholeAnswer } from '../wire.ts';

/** The request as requests of at most `most` inputs, in order. */
export function batchesOf(request: EmbedRequest, most: number): EmbedRequest[] {
  const { input } = request;
  return Array.from({ length: Math.ceil(input.length / most) }, (_, index) => ({
    ...request,
    input: input.slice(index * most, (index + 1) * most),
  }));
}

/**
 * Reads the answer to `batch`. `length`: length of the vectors of earlier batches. Throws PROVIDER_FAILED for vectors
 * of several lengths, and INVALID_REQUEST if the provider has ignored the request's `dimensions`.
 */
export function readBatch(
  api: EmbeddingsApi,
  body: unknown,
  { input, dimensions }: EmbedRequest,
  length?: number,
): WholeAnswer<VectorsEvent> {
  const answer = api.read(body, input.length);
  const { vectors } = answer.content;
  const expected = length ?? vectors[0]?.length ?? 0;
  if (vectors.some((vector) => vector.length !== expected)) throw notTheApi('vectors of several lengths');
  if (dimensions === undefined || expected === dimensions) return answer;
  throw invalid('dimensions', `must be ${String(expected)}: this model of the provider has no other vectors`);
}

/** The events of the whole answer. REQUIRES: `answers` is not empty. */
export function joined(answers: readonly Collector[]): EmbedEvent[] {
  const [first, last] = [answers[0] as Collector, answers.at(-1) as Collector];
  const { queue_ms, ttft_ms } = first.finish.timings;
  const finish = {
    ...last.finish,
    usage: answers.map(({ finish: { usage } }) => usage).reduce(sum),
    timings: { ...last.finish.timings, queue_ms, ttft_ms },
  };
  return [first.start, { type: 'vectors', vectors: answers.flatMap(({ vectors }) => vectors) }, finish];
}

/** null: one of them is unknown. */
function sum(one: Usage | null, other: Usage | null): Usage | null {
  if (one === null || other === null) return null;
  return { ...one, input_tokens: one.input_tokens + other.input_tokens };
}

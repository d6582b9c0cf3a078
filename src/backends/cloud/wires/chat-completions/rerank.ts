/** Reranking as in Cohere's API: `/rerank` below the base URL of Jina, Together, vLLM, llama-server, svc and others. */
import * as v from 'valibot';
import { invalid } from '../../../../protocol/validate.ts';
import { inOrder, readBody } from '../../answer.ts';
import { maybe } from '../../openai-error.ts';
import type { RerankApi } from '../../wire.ts';
import { openAiHeaders } from './openai-headers.ts';

const tokens = v.pipe(v.number(), v.integer(), v.minValue(0));

const AnswerSchema = v.object({
  model: maybe(v.string()),
  results: v.array(v.object({ index: v.number(), relevance_score: v.pipe(v.number(), v.finite()) })),
  /** Jina and vLLM count the total only, which is all input. */
  usage: maybe(v.object({ total_tokens: tokens })),
  /** Cohere's. */
  meta: maybe(v.object({ tokens: v.object({ input_tokens: tokens }) })),
});

export const rerank: RerankApi = {
  request({ query, documents, max_document_tokens }, target) {
    // Servers do not report how much they truncated, and our usage must.
    if (max_document_tokens !== undefined)
      throw invalid('max_document_tokens', 'is supported only for local models: a provider gets every document whole');
    return {
      path: '/rerank',
      headers: openAiHeaders(target),
      body: { model: target.model, query, documents, return_documents: false },
    };
  },

  read(body, count) {
    const { model, results, usage, meta } = readBody(AnswerSchema, body);
    const input_tokens = usage?.total_tokens ?? meta?.tokens.input_tokens;
    return {
      model,
      content: { type: 'scores', scores: inOrder(results, count).map(({ relevance_score }) => relevance_score) },
      usage: input_tokens === undefined ? null : { input_tokens, output_tokens: 0, cached_tokens: 0 },
    };
  },
};

/**
 * `POST /v1/rerank`, `/v2/rerank` and `/rerank`: converts the requests of Cohere's API (both versions), Jina's and
 * llama-server's to ours. One answer has the fields of all four.
 */
import * as v from 'valibot';
import { ranked, type Collector } from '../collect.ts';
import { given } from '../given.ts';
import { KeepAliveSchema } from '../keep-alive.ts';
import { truncatedOf } from '../openai/completion-response.ts';
import { parseRerankRequest, RerankRequestSchema, type RerankRequest } from '../rerank.ts';
import { clientFields, invalid, parse } from '../validate.ts';

export interface RerankCall {
  readonly request: RerankRequest;
  /** Absent: all. */
  readonly topN?: number;
  readonly returnDocuments: boolean;
}

export const RerankFieldsSchema = v.object({
  top_n: v.exactOptional(v.pipe(v.number(), v.integer(), v.minValue(1))),
  return_documents: v.exactOptional(v.boolean(), false),
  max_tokens_per_doc: RerankRequestSchema.entries.max_document_tokens,
  keep_alive: KeepAliveSchema,
});

/** Ignores unknown fields; null means absent. Throws INVALID_REQUEST with `param`. */
export function parseRerank(body: unknown): RerankCall {
  const { documents, ...rest } = clientFields(body);
  refuseUnsupported(rest);
  const { top_n, return_documents, max_tokens_per_doc, keep_alive } = parse(RerankFieldsSchema, rest);
  return {
    request: parseRerankRequest({
      ...rest,
      ...given({ keep_alive_seconds: keep_alive, max_document_tokens: max_tokens_per_doc }),
      ...(documents === undefined ? {} : { documents: Array.isArray(documents) ? documents.map(textOf) : documents }),
    }),
    ...(top_n === undefined ? {} : { topN: top_n }),
    returnDocuments: return_documents,
  };
}

/** A document may be an object with its `text`; other objects are left for the check to refuse. */
function textOf(document: unknown): unknown {
  const text = typeof document === 'object' && document !== null && 'text' in document ? document.text : undefined;
  return typeof text === 'string' ? text : document;
}

function refuseUnsupported({ rank_fields }: Readonly<Record<string, unknown>>): void {
  const isText = Array.isArray(rank_fields) && rank_fields.length === 1 && rank_fields[0] === 'text';
  if (rank_fields !== undefined && !isText)
    throw invalid('rank_fields', 'must be ["text"] or absent: a document is one text');
}

/** `version`: version of Cohere's API. */
export function rerankAnswer(id: string, answer: Collector, call: RerankCall, version: '1' | '2'): object {
  const { start, finish, scores } = answer;
  const { documents } = call.request;
  const tokens = finish.usage?.input_tokens ?? 0;
  return {
    id,
    object: 'list',
    model: start.model,
    results: ranked(scores, call.topN).map(({ index, score }) => ({
      index,
      relevance_score: score,
      ...(call.returnDocuments ? { document: { text: documents[index] } } : {}),
    })),
    usage: { prompt_tokens: tokens, total_tokens: tokens },
    ...truncatedOf(finish),
    meta: { api_version: { version }, tokens: { input_tokens: tokens, output_tokens: 0 } },
  };
}

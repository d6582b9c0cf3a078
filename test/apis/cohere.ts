/** Cohere's rerank, versions 1 and 2, and Jina's. */
import { honoured, ignored, refused, type Api, type Field } from './declare.ts';

const base = { model: 'tiny', query: 'q', documents: ['a', 'bbb', 'cc'] };
const COMMON: readonly Field[] = [
  honoured('model', 'model', 'small'),
  honoured('query', 'query', 'other'),
  honoured('documents', 'documents', ['d', 'e']),
  honoured('top_n', 'answer', 1),
];
const LEN = honoured('max_tokens_per_doc', 'max_document_tokens', 5);
const RETURN = honoured('return_documents', 'answer', true);

export const RERANK_V1: Api = {
  title: 'Cohere: rerank, version 1',
  path: '/v1/rerank',
  sdk: { file: 'cohere-ai/dist/api/client/requests/RerankRequest.d.ts', name: 'RerankRequest', isCamelCase: true },
  base,
  fields: [
    ...COMMON,
    refused('rank_fields', ['title']),
    RETURN,
    ignored('max_chunks_per_doc', 'a document is scored as a whole: max_tokens_per_doc shortens it', 3),
  ],
};

export const RERANK_V2: Api = {
  title: 'Cohere: rerank, version 2',
  path: '/v2/rerank',
  sdk: {
    file: 'cohere-ai/dist/api/resources/v2/client/requests/V2RerankRequest.d.ts',
    name: 'V2RerankRequest',
    isCamelCase: true,
  },
  base,
  fields: [...COMMON, LEN, ignored('priority', "a priority within Cohere's service; svc has none for reranking", 9)],
};

/** As in Jina's documentation: there is no SDK. */
export const RERANK_JINA: Api = {
  title: 'Jina: rerank',
  path: '/rerank',
  sdk: null,
  base,
  fields: [...COMMON, RETURN],
};

/** Embeddings and reranking are supported only with local models. */
import { SvcError } from '../../protocol/errors.ts';

export function refuseEmbeddings(provider: string): never {
  throw new SvcError('INVALID_REQUEST', `${provider}: embeddings are not supported with providers yet`, {
    hint: 'use a local embedding model: svc model list',
    param: 'model',
  });
}

export function refuseRerank(provider: string): never {
  throw new SvcError('INVALID_REQUEST', `${provider}: reranking is not supported with providers yet`, {
    hint: 'use a local reranking model: svc model list',
    param: 'model',
  });
}

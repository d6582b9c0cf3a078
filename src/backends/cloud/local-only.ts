/** What is supported only with local models, or not by every API. */
import { SvcError } from '../../protocol/errors.ts';
import type { GenerateRequest } from '../../protocol/generate.ts';

export function refuseEmbeddings(provider: string): never {
  throw new SvcError('INVALID_REQUEST', `${provider}: its API has no embeddings`, {
    hint: 'use another provider, or a local embedding model: svc model list',
    param: 'model',
  });
}

export function refuseRerank(provider: string): never {
  throw new SvcError('INVALID_REQUEST', `${provider}: its API has no reranking`, {
    hint: 'use another provider, or a local reranking model: svc model list',
    param: 'model',
  });
}

export function refuseTokenize(provider: string): never {
  throw new SvcError(
    'INVALID_REQUEST',
    `${provider}: its models' tokens cannot be computed here: providers do not publish their vocabularies and templates`,
    { hint: 'use a local model: svc model list', param: 'model' },
  );
}

/** Throws INVALID_REQUEST for a prompt without a chat template. */
export function refuseRaw(provider: string, { raw }: Pick<GenerateRequest, 'raw'>): void {
  if (raw === undefined) return;
  throw new SvcError('INVALID_REQUEST', `${provider}: prompts that are not chats are supported only for local models`, {
    hint: 'send messages to /v1/chat/completions, or use a local model: svc model list',
    param: 'prompt',
  });
}

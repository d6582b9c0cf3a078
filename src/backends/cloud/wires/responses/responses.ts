/** OpenAI's Responses API. */
import { listOpenAiModels, readOpenAiModels } from '../chat-completions/chat-completions.ts';
import { openAiEmbeddings } from '../chat-completions/openai-embeddings.ts';
import { openAiHeaders } from '../chat-completions/openai-headers.ts';
import { rerank } from '../chat-completions/rerank.ts';
import { openAiError } from '../../openai-error.ts';
import { responsesBody } from './responses-request.ts';
import { ResponsesReader } from './responses-reader.ts';
import type { Wire } from '../../wire.ts';

export const responses: Wire = {
  request: (request, target) => ({
    path: '/responses',
    headers: openAiHeaders(target),
    body: responsesBody(request, target.model, target.quirks),
  }),
  reader: () => new ResponsesReader(),
  embeddings: openAiEmbeddings,
  rerank,
  error: openAiError,
  listModels: listOpenAiModels,
  readModels: readOpenAiModels,
};

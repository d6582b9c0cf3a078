/** OpenAI's Chat Completions API, also of compatible servers. */
import * as v from 'valibot';
import { readBody } from '../../answer.ts';
import { ChatCompletionsReader } from './chat-completions-reader.ts';
import { chatCompletionsBody } from './chat-completions-request.ts';
import { openAiError } from '../../openai-error.ts';
import type { Wire } from '../../wire.ts';
import { openAiEmbeddings } from './openai-embeddings.ts';
import { openAiHeaders } from './openai-headers.ts';
import { rerank } from './rerank.ts';

/** OpenAI's list is in `data`; Together sends a bare list. */
const ModelsSchema = v.union([
  v.object({
    data: v.array(v.object({ id: v.string() })),
    has_more: v.nullish(v.boolean()),
    last_id: v.nullish(v.string()),
  }),
  v.pipe(
    v.array(v.object({ id: v.string() })),
    v.transform((data) => ({ data, has_more: false, last_id: null })),
  ),
]);

export const chatCompletions: Wire = {
  request: (request, target) => ({
    path: '/chat/completions',
    headers: openAiHeaders(target),
    body: chatCompletionsBody(request, target.model, target.quirks),
  }),
  reader: () => new ChatCompletionsReader(),
  embeddings: openAiEmbeddings,
  rerank,
  error: openAiError,
  listModels: listOpenAiModels,
  readModels: readOpenAiModels,
};

export function listOpenAiModels(
  target: Parameters<Wire['listModels']>[0],
  after: string | null,
): ReturnType<Wire['listModels']> {
  const path = target.quirks.models_path === undefined ? '/models' : target.quirks.models_path;
  if (path === null) return null;
  const page = after === null ? '' : `${path.includes('?') ? '&' : '?'}${new URLSearchParams({ after }).toString()}`;
  return { path: path + page, headers: openAiHeaders(target), body: null };
}

export function readOpenAiModels(body: unknown): ReturnType<Wire['readModels']> {
  const { data, has_more: hasMore, last_id: last } = readBody(ModelsSchema, body);
  return { models: data.map(({ id }) => id), after: hasMore === true ? (last ?? null) : null };
}

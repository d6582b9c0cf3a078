/** Anthropic's Messages API, also of compatible servers. */
import * as v from 'valibot';
import { readBody } from '../../answer.ts';
import { MessagesReader } from './messages-reader.ts';
import { messagesBody } from './messages-request.ts';
import { keyHeader } from '../../key-header.ts';
import { openAiError } from '../../openai-error.ts';
import type { Wire, WireTarget } from '../../wire.ts';

/**
 * The version that accepts sampling settings and that all models and compatible servers support. (2026-10-21 refuses
 * sampling settings, even default values.)
 */
const VERSION = '2023-06-01';
const MODELS_A_PAGE = '1000';

const ModelsSchema = v.object({
  data: v.array(v.object({ id: v.string() })),
  has_more: v.optional(v.boolean(), false),
  last_id: v.nullish(v.string()),
});

export const messages: Wire = {
  request: (request, target) => ({
    path: '/v1/messages',
    headers: headers(target),
    body: messagesBody(request, target.model, target.quirks),
  }),

  reader: () => new MessagesReader(),

  embeddings: null,
  rerank: null,

  // Covers Anthropic's format too.
  error: openAiError,

  listModels(target, after) {
    const path = target.quirks.models_path === undefined ? '/v1/models' : target.quirks.models_path;
    if (path === null) return null;
    const query = new URLSearchParams({ limit: MODELS_A_PAGE, ...(after === null ? {} : { after_id: after }) });
    return { path: `${path}?${query.toString()}`, headers: headers(target), body: null };
  },

  readModels(body) {
    const { data, has_more: hasMore, last_id: last } = readBody(ModelsSchema, body);
    return { models: data.map(({ id }) => id), after: hasMore ? (last ?? null) : null };
  },
};

function headers({ key, quirks }: Pick<WireTarget, 'key' | 'quirks'>): Record<string, string> {
  return { 'anthropic-version': VERSION, ...quirks.headers, ...keyHeader(key, quirks.key_header ?? 'x-api-key') };
}

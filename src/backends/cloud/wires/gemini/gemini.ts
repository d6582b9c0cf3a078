/** Gemini's native API (`streamGenerateContent`). It names models `models/x`; here they are `x`. */
import * as v from 'valibot';
import { readBody } from '../../answer.ts';
import { geminiError, GeminiReader } from './gemini-reader.ts';
import { geminiBody } from './gemini-request.ts';
import type { Wire } from '../../wire.ts';
import { geminiEmbeddings } from './gemini-embeddings.ts';
import { headers, resource } from './gemini-paths.ts';

const PREFIX = 'models/';
const MODELS_A_PAGE = '1000';

const ModelsSchema = v.object({
  // Absent on an empty last page.
  models: v.optional(v.array(v.object({ name: v.string() })), []),
  nextPageToken: v.optional(v.string()),
});

export const gemini: Wire = {
  request: (request, target) => ({
    path: `/${resource(target.model)}:streamGenerateContent?alt=sse`,
    headers: headers(target),
    body: geminiBody(request, target.model, target.quirks),
  }),

  reader: () => new GeminiReader(),

  embeddings: geminiEmbeddings,
  rerank: null,

  error: geminiError,

  listModels(target, after) {
    const path = target.quirks.models_path === undefined ? '/models' : target.quirks.models_path;
    if (path === null) return null;
    const query = new URLSearchParams({ pageSize: MODELS_A_PAGE, ...(after === null ? {} : { pageToken: after }) });
    return { path: `${path}?${query.toString()}`, headers: headers(target), body: null };
  },

  readModels(body) {
    const { models, nextPageToken: after = '' } = readBody(ModelsSchema, body);
    return {
      models: models.map(({ name }) => (name.startsWith(PREFIX) ? name.slice(PREFIX.length) : name)),
      after: after === '' ? null : after,
    };
  },
};

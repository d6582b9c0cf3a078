/** Sends bodies to the APIs of other programs than OpenAI's, with secrets in each place that a client controls. */
import { HTTP_ROUTES } from '../../src/protocol/routes.ts';
import { ask, type To } from '../http/ask.ts';
import type { Secrets } from './messages-bodies.ts';

const RERANKS = [HTTP_ROUTES.rerank, HTTP_ROUTES.rerankV1, HTTP_ROUTES.rerankV2, HTTP_ROUTES.runtimeRerank];

export async function tellRankers(http: To, headers: Record<string, string>, secrets: Secrets): Promise<void> {
  const { prompt, key } = secrets;
  for (const path of RERANKS)
    for (const body of [
      { query: prompt, documents: [prompt, { text: key }] },
      { query: prompt, documents: [prompt], model: 'ranker', return_documents: true },
      { query: prompt, documents: { [key]: prompt } },
      { query: 'x', documents: ['y'], model: key, rank_fields: [prompt] },
    ])
      await ask(http, path, { headers, body });
  for (const path of [HTTP_ROUTES.embeddings, HTTP_ROUTES.runtimeEmbed])
    await ask(http, path, { headers, body: { input: [prompt, key], user: key } });
}

export async function tellTokenizers(http: To, headers: Record<string, string>, secrets: Secrets): Promise<void> {
  const { prompt, key } = secrets;
  const messages = [{ role: 'user', content: prompt }];
  const texts = { content: prompt, input_prefix: prompt, input_suffix: prompt, prompt, messages };
  const { completions, tokenize, detokenize, applyTemplate, infill } = HTTP_ROUTES;
  for (const path of [completions, tokenize, detokenize, applyTemplate, infill]) {
    const { messages: _, ...plain } = texts;
    for (const body of [
      path === completions ? plain : texts,
      { ...plain, content: [prompt], tokens: [prompt], prompt: { [key]: prompt }, input_suffix: 7 },
      { ...plain, messages, model: key, stop: [prompt], max_tokens: 2, n_predict: 2 },
      { ...plain, suffix: prompt, echo: true, max_tokens: 2, input_extra: [{ filename: key, text: prompt }] },
    ])
      await ask(http, path, { headers, body });
  }
  await ask(http, `${HTTP_ROUTES.props}?model=${key}`, { headers });
}

export async function tellOllama(http: To, headers: Record<string, string>, secrets: Secrets): Promise<void> {
  const { prompt, key, data } = secrets;
  const messages = [{ role: 'user', content: prompt }];
  const asked = { model: 'default', stream: false, options: { num_predict: 2 } };
  for (const [path, body] of [
    [HTTP_ROUTES.ollamaChat, { ...asked, messages: [{ role: 'system', content: key }, ...messages] }],
    [HTTP_ROUTES.ollamaChat, { ...asked, messages: [{ role: prompt, content: key }] }],
    [HTTP_ROUTES.ollamaChat, { ...asked, messages: [{ role: 'user', content: prompt, images: [data, key] }] }],
    [HTTP_ROUTES.ollamaChat, { ...asked, messages, options: { stop: [prompt], seed: key } }],
    [HTTP_ROUTES.ollamaGenerate, { ...asked, prompt, system: key }],
    [HTTP_ROUTES.ollamaGenerate, { ...asked, prompt: { [key]: prompt } }],
    [HTTP_ROUTES.ollamaEmbed, { model: 'default', input: [prompt, key] }],
    [HTTP_ROUTES.ollamaEmbeddings, { model: key, prompt }],
    [HTTP_ROUTES.ollamaShow, { model: prompt }],
    [HTTP_ROUTES.ollamaCopy, { source: prompt, destination: key }],
    [HTTP_ROUTES.ollamaCreate, { model: key, from: prompt, system: prompt }],
  ] as const)
    await ask(http, path, { headers, body });
  await ask(http, HTTP_ROUTES.ollamaDelete, { method: 'DELETE', headers, body: { model: prompt } });
}

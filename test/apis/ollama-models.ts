/** Ollama's routes about models. */
import { honoured, ignored, needed, refused, type Api } from './declare.ts';

const file = 'ollama/dist/index.d.ts';
const named = { model: 'tiny' };

export const OLLAMA_SHOW: Api = {
  title: 'Ollama: show',
  path: '/api/show',
  sdk: { file, name: 'ShowRequest' },
  base: named,
  fields: [
    needed('model'),
    ignored('system', 'the stored model is described, without changes', 'Be brief.'),
    ignored('template', 'the stored model is described, without changes', '{{ .Prompt }}'),
    ignored('options', 'the stored model is described, without changes', { seed: 1 }),
  ],
};

export const OLLAMA_PULL: Api = {
  title: 'Ollama: pull',
  path: '/api/pull',
  sdk: { file, name: 'PullRequest' },
  base: named,
  fields: [
    honoured('model', 'model', 'other'),
    honoured('stream', 'answer', false),
    ignored('insecure', "transport rules are svc's own", true),
  ],
};

export const OLLAMA_CREATE: Api = {
  title: 'Ollama: create',
  path: '/api/create',
  sdk: { file, name: 'CreateRequest' },
  base: { model: 'mine', from: 'tiny' },
  fields: [
    honoured('model', 'model', 'other'),
    needed('from'),
    honoured('system', 'system', 'Be brief.'),
    honoured('parameters', 'parameters', { temperature: 1 }),
    honoured('stream', 'answer', false),
    ignored('license', "the licence is read from the model's file", 'MIT'),
    refused('template', '{{ .Prompt }}'),
    refused('messages', [{ role: 'user', content: 'hi' }]),
    refused('adapters', { 'a.gguf': 'sha256:00' }),
    refused('quantize', 'q4_K_M'),
  ],
};

export const OLLAMA_COPY: Api = {
  title: 'Ollama: copy',
  path: '/api/copy',
  sdk: { file, name: 'CopyRequest' },
  base: { source: 'tiny', destination: 'mine' },
  fields: [needed('source'), honoured('destination', 'destination', 'other')],
};

export const OLLAMA_DELETE: Api = {
  title: 'Ollama: delete',
  path: '/api/delete',
  method: 'DELETE',
  sdk: { file, name: 'DeleteRequest' },
  base: named,
  fields: [needed('model')],
};

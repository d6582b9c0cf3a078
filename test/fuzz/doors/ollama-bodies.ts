/** Bodies of Ollama's API with every field. */
import { SAMPLING } from './sampling.ts';

const OLLAMA = {
  model: 'tiny',
  stream: false,
  keep_alive: '5m',
  think: 'low',
  format: { type: 'object' },
  options: { ...SAMPLING, num_predict: 1, num_ctx: 512, stop: ['x'], tfs_z: 1, penalize_newline: true },
  logprobs: true,
  top_logprobs: 2,
  route: 'local',
  fallback: false,
  priority: 'batch',
  truncate: true,
};

export const OLLAMA_CHAT = {
  ...OLLAMA,
  messages: [
    { role: 'system', content: 'a' },
    { role: 'user', content: 'b', images: ['iVBORw0KGgo='] },
    { role: 'assistant', content: '', thinking: 'c', tool_calls: [{ function: { name: 'd', arguments: { e: 1 } } }] },
    { role: 'tool', content: 'f', tool_name: 'd' },
    { role: 'tool', content: 'f', tool_call_id: 'g' },
  ],
  tools: [{ type: 'function', function: { name: 'd', description: 'h', parameters: { type: 'object' } } }],
};

export const OLLAMA_GENERATE = {
  ...OLLAMA,
  prompt: 'a',
  system: 'b',
  images: ['iVBORw0KGgo='],
  template: '',
  raw: false,
  suffix: '',
  context: [],
};

export const OLLAMA_EMBED = {
  model: 'tiny',
  input: ['a', 'b'],
  prompt: 'c',
  keep_alive: -1,
  options: { num_ctx: 1 },
  truncate: false,
  dimensions: 4,
  route: 'local',
};

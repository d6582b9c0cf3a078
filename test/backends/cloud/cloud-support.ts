/** Helpers for tests of the cloud backend. */
import { subscribe } from 'node:diagnostics_channel';
import type { Socket } from 'node:net';
import { CloudBackend } from '../../../src/backends/cloud/cloud-backend.ts';
import type { Provider } from '../../../src/backends/cloud/provider.ts';
import type { GenerateEvent, GenerateRequest } from '../../../src/protocol/generate.ts';
import { recorder, type LogLine } from '../local-support.ts';
import type { Turn } from './upstream.ts';

export const KEY = 'sk-test-0123456789abcdef';

/** A provider whose endpoint comes from the config. */
export function provider(url: string, changes: Partial<Provider> = {}): Provider {
  return {
    name: 'acme',
    kind: 'openai_compatible',
    api: 'chat_completions',
    endpoints: [url],
    defaultModel: 'small',
    embeddingModel: null,
    quirks: {},
    isDeclared: true,
    concurrency: null,
    idleTimeoutMs: 60_000,
    enabled: true,
    isDefaultCloud: false,
    credential: () => ({ source: 'env', name: 'ACME_API_KEY', present: true }),
    readKey: () => Promise.resolve(KEY),
    ...changes,
  };
}

export interface Cloud {
  readonly backend: CloudBackend;
  readonly log: readonly LogLine[];
}

export function cloud(url: string, changes: Partial<Provider> = {}): Cloud {
  const log: LogLine[] = [];
  return { backend: new CloudBackend({ provider: provider(url, changes), log: recorder(log) }), log };
}

export function ask(prompt = 'Hi', changes: Partial<GenerateRequest> = {}): GenerateRequest {
  return { messages: [{ role: 'user', content: prompt }], sampling: {}, stop: [], ...changes };
}

export function reasoningOf(events: readonly GenerateEvent[]): string {
  return events.map((event) => (event.type === 'reasoning' ? event.text : '')).join('');
}

/** A Chat Completions chunk. */
export function chunk(delta: object, finishReason: string | null = null, more: object = {}): object {
  return {
    id: 'chatcmpl-1',
    object: 'chat.completion.chunk',
    created: 1_760_000_000,
    model: 'small-2026-07',
    choices: [{ index: 0, delta, finish_reason: finishReason }],
    ...more,
  };
}

export const USAGE = { prompt_tokens: 11, completion_tokens: 3, prompt_tokens_details: { cached_tokens: 4 } };

/** Sends a whole answer as OpenAI does. */
export async function sayHello(turn: Turn): Promise<void> {
  await turn.event(chunk({ role: 'assistant', content: '' }));
  for (const content of ['Hel', 'lo ', 'there']) await turn.event(chunk({ content }));
  await turn.event(chunk({}, 'stop'));
  await turn.event({ ...chunk({}), choices: [], usage: USAGE });
  await turn.event('[DONE]');
  turn.end();
}

/** Returns a counter of the connections that this process has open through undici. */
export function openConnections(): () => number {
  const open = new Set<Socket>();
  subscribe('undici:client:connected', (message) => {
    const { socket } = message as { socket: Socket };
    open.add(socket);
    socket.once('close', () => open.delete(socket));
  });
  return () => open.size;
}

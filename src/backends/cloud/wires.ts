/** The supported APIs. */
import { chatCompletions } from './chat-completions.ts';
import { gemini } from './gemini.ts';
import { messages } from './messages.ts';
import type { Api } from './provider.ts';
import { responses } from './responses.ts';
import type { Wire } from './wire.ts';

const WIRES: Readonly<Record<Api, Wire>> = { chat_completions: chatCompletions, responses, messages, gemini };

export function wireOf(api: Api): Wire {
  return WIRES[api];
}

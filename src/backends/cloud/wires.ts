/** The supported APIs. */
import { chatCompletions } from './wires/chat-completions/chat-completions.ts';
import { gemini } from './wires/gemini/gemini.ts';
import { messages } from './wires/messages/messages.ts';
import type { Api } from './provider.ts';
import { responses } from './wires/responses/responses.ts';
import type { Wire } from './wire.ts';

const WIRES: Readonly<Record<Api, Wire>> = { chat_completions: chatCompletions, responses, messages, gemini };

export function wireOf(api: Api): Wire {
  return WIRES[api];
}

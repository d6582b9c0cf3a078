/** The request for the next answer of a conversation. */
import type { GenerateInput, Message, Tool } from '../../../src/protocol/generate.ts';
import { ApiError } from '../api/api-error.ts';
import { hasResult, type Conversation, type Turn, type UserTurn } from './conversation.ts';

/** Throws ApiError if the conversation's tools are no tools. */
export function toRequest({ model, options, turns }: Conversation): GenerateInput {
  const { system, temperature, maxTokens, effort } = options;
  const tools = toolsOf(options.tools);
  const first: Message[] = system.trim() === '' ? [] : [{ role: 'system', content: system }];
  return {
    messages: [...first, ...turns.flatMap((turn) => toMessage(turn, turns))],
    reasoning_optional: true,
    ...(model === '' ? {} : { model }),
    ...(temperature === null ? {} : { sampling: { temperature } }),
    ...(maxTokens === null ? {} : { max_tokens: maxTokens }),
    ...(effort === '' ? {} : { reasoning_effort: effort }),
    ...(tools.length === 0 ? {} : { tools }),
  };
}

/**
 * A call without a result is left out, and so is an answer that has said nothing: models refuse these. A stopped call
 * is not even whole.
 */
function toMessage(turn: Turn, turns: readonly Turn[]): Message[] {
  switch (turn.role) {
    case 'user':
      return [{ role: 'user', content: contentOf(turn) }];
    case 'tool':
      return [{ role: 'tool', content: turn.text, tool_call_id: turn.callId }];
    case 'assistant': {
      const { text, reasoning } = turn;
      const calls = turn.toolCalls.filter(({ id }) => hasResult(id, turns));
      if (text === '' && calls.length === 0) return [];
      if (calls.length === 0) return [{ role: 'assistant', content: text }];
      return [{ role: 'assistant', content: text, tool_calls: calls, ...(reasoning === '' ? {} : { reasoning }) }];
    }
  }
}

function contentOf({ text, pictures }: UserTurn): Message['content'] {
  if (pictures.length === 0) return text;
  const images = pictures.map(({ media_type, data }) => ({ type: 'image' as const, media_type, data }));
  return text === '' ? images : [{ type: 'text', text }, ...images];
}

/** The daemon checks each tool. */
function toolsOf(text: string): Tool[] {
  if (text.trim() === '') return [];
  try {
    const tools: unknown = JSON.parse(text);
    if (Array.isArray(tools)) return tools as Tool[];
  } catch {
    // Said below, with the case that it is JSON but no array.
  }
  throw new ApiError(
    'INVALID_REQUEST',
    'the tools are not a JSON array',
    'Mend them in the options of the conversation.',
  );
}

/** Message conversions shared by all APIs. */
import { SvcError } from '../../protocol/errors.ts';
import type { AudioPart, ContentPart, GenerateRequest, Message, ToolCall } from '../../protocol/generate.ts';
import { given } from '../../protocol/given.ts';
import { invalid } from '../../protocol/validate.ts';
import { objectText } from '../../protocol/foreign-text.ts';
import { OpenCalls } from '../../protocol/history/open-calls.ts';

/** A part that providers take. */
export type SilentPart = Exclude<ContentPart, AudioPart>;

/**
 * Gives each open call an id of its own (OpenCalls), and the results the ids of their calls. A result that answers no
 * open call is unchanged: the provider decides about it.
 */
export function withOwnIds(messages: readonly Message[]): Message[] {
  const open = new OpenCalls();
  return messages.map((message) => {
    const { role, tool_calls: calls, tool_call_id: id } = message;
    if (role !== 'assistant') open.endTurn();
    if (role === 'tool') return { ...message, ...given({ tool_call_id: open.answered(id)?.id }) };
    return { ...message, ...given({ tool_calls: calls?.map((call) => open.add(call)) }) };
  });
}

/** Joins text parts with line breaks. Throws INVALID_REQUEST for an image. */
export function plainText(content: Message['content'], param: string): string {
  if (typeof content === 'string') return content;
  return content
    .map((part) => {
      if (part.type !== 'text') throw invalid(param, 'must be text');
      return part.text;
    })
    .join('\n');
}

/** The content without sounds, which no provider's API gets. Throws INVALID_REQUEST for one. */
export function withoutSounds(content: Message['content'], param: string): string | SilentPart[] {
  if (typeof content === 'string') return content;
  return content.map((part, index) => {
    if (part.type !== 'audio') return part;
    throw new SvcError('INVALID_REQUEST', 'providers take no sounds: use a local model', {
      param: `${param}[${String(index)}]`,
    });
  });
}

/** Joins all system messages, for APIs that allow only one, at the start. Empty: none. */
export function joinedSystem(messages: readonly Message[]): string {
  const prompts = messages.map((message, index) =>
    message.role === 'system' ? plainText(message.content, `messages[${String(index)}].content`) : '',
  );
  return prompts.filter((prompt) => prompt !== '').join('\n\n');
}

/** Parses a call's arguments, for APIs that need an object. */
export function argumentsOf(call: ToolCall): object {
  return JSON.parse(objectText(call.arguments)) as object;
}

/** True if there are tools. Throws INVALID_REQUEST for a choice that needs some. */
export function hasTools(tools: readonly unknown[], choice: GenerateRequest['tool_choice']): boolean {
  if (tools.length > 0) return true;
  if (choice === 'required' || typeof choice === 'object') throw invalid('tool_choice', 'requires tools');
  return false;
}

/** Makes the part of an engine's request that says how a chat is rendered and its answer read. */
import type { EngineRequest, NativeChat, NativeMedia, NativeMessage } from '../../engine/addon.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { asksForCall, type ContentPart, type GenerateRequest, type Message } from '../../protocol/generate.ts';
import { objectText } from '../../protocol/foreign-text.ts';
import { given } from '../../protocol/given.ts';
import { OpenCalls } from '../../protocol/history/open-calls.ts';
import { invalid } from '../../protocol/validate.ts';
import { withSendableResults } from './media/results.ts';
import { anyValues } from './schema/arguments.ts';
import { toTools } from './tools.ts';

/** Throws INVALID_REQUEST, naming the field. */
export function toChat(request: GenerateRequest): Pick<EngineRequest, 'messages' | 'chat'> {
  const { tools = [], tool_choice: choice = 'auto', chat_template_kwargs } = request;
  const variables = chat_template_kwargs === undefined ? undefined : Object.entries(chat_template_kwargs);
  const only = typeof choice === 'string' ? undefined : choice.name;
  if (only !== undefined && !tools.some(({ name }) => name === only))
    throw invalid('tool_choice', `names ${only.slice(0, 64)}, which is not among the tools`);
  if (choice === 'required' && tools.length === 0) throw invalid('tool_choice', 'requires tools');
  const messages = toMessages(request.messages);
  const last = messages.at(-1);
  // A forced call can follow thoughts only: after a text, it is a new turn.
  const isContinued =
    last?.role === 'assistant' && last.tool_calls === undefined && (last.content === '' || !asksForCall(choice));
  const asked = toTools(tools, choice);
  const chat: NativeChat = given({
    ...(asked.length === 0 ? {} : { tools: asked, ...(choice === 'none' ? {} : anyValues()) }),
    tool_choice: typeof choice !== 'string' ? 'required' : choice === 'auto' ? undefined : choice,
    tool_name: only,
    parallel_tool_calls: request.parallel_tool_calls,
    reasoning_effort: request.reasoning_effort,
    reasoning_budget_tokens: request.reasoning_budget_tokens,
    template_variables: variables?.map(([name, value]) => [name, JSON.stringify(value)] as const),
    continue_last: isContinued ? true : undefined,
  });
  if (messages.reduce((sum, { media = [] }) => sum + media.length, 0) > LIMITS.media)
    throw invalid('messages', `must have at most ${String(LIMITS.media)} pictures and sounds`);
  return { messages, ...(Object.keys(chat).length === 0 ? {} : { chat }) };
}

/**
 * Drops an empty last message of the assistant: llama.cpp renders no header for it, so the model would generate one.
 */
function withoutEmptyEnd(messages: readonly Message[]): readonly Message[] {
  const last = messages.at(-1);
  if (last?.role !== 'assistant' || (last.reasoning ?? '') !== '' || (last.tool_calls ?? []).length > 0)
    return messages;
  const { content } = last;
  const isEmpty = typeof content === 'string' ? content === '' : content.every(isEmptyText);
  return isEmpty ? messages.slice(0, -1) : messages;
}

function isEmptyText(part: ContentPart): boolean {
  return part.type === 'text' && part.text === '';
}

/** Without an empty end (withoutEmptyEnd). Throws INVALID_REQUEST, naming the field. */
export function toMessages(messages: readonly Message[]): NativeMessage[] {
  const open = new OpenCalls();
  return withSendableResults(withoutEmptyEnd(messages)).map((message, index) => {
    const param = `messages[${String(index)}]`;
    const { role, reasoning, tool_calls: calls = [] } = message;
    if (role !== 'assistant') open.endTurn();
    if (calls.length > 0 && role !== 'assistant')
      throw invalid(`${param}.tool_calls`, 'may be in assistant messages only');
    const tool_calls = calls.map((call) => ({ ...open.add(call), arguments: compact(objectText(call.arguments)) }));
    return {
      role,
      ...toContent(message, param),
      ...given({ reasoning: role === 'assistant' ? reasoning : undefined }),
      ...(tool_calls.length === 0 ? {} : { tool_calls }),
      ...(role === 'tool' ? answered(message, open, param) : {}),
    };
  });
}

/** The call that a tool message answers. */
function answered(
  { tool_call_id: id }: Message,
  open: OpenCalls,
  param: string,
): Pick<NativeMessage, 'tool_call_id' | 'tool_name'> {
  const call = open.answered(id);
  if (call === undefined)
    throw invalid(
      `${param}.tool_call_id`,
      'must be the id of a tool call in an earlier message that has no result yet',
    );
  return { tool_call_id: call.id, tool_name: call.name };
}

/**
 * Compact JSON without needless escapes, in which a control token of the model might hide. Numbers are kept as they are
 * written, and names in their order. REQUIRES: `json` is valid. It uses no regular expression on whole strings:
 * millions of escapes would overflow the regex engine's stack.
 */
function compact(json: string): string {
  let written = '';
  let kept = 0;
  let isInString = false;
  for (let at = 0; at < json.length; at++) {
    const character = json.charAt(at);
    if (character === '"') isInString = !isInString;
    else if (isInString && character === '\\') {
      let end = json.charAt(at + 1) === '/' ? at + 2 : at;
      // Both halves of a surrogate pair are decoded together.
      while (json.startsWith('\\u', end)) end += 6;
      if (end > at) {
        const text = JSON.parse(`"${json.slice(at, end)}"`) as string;
        written += json.slice(kept, at) + JSON.stringify(text).slice(1, -1);
        kept = end;
      }
      at = Math.max(end - 1, at + 1);
    } else if (!isInString && character <= ' ') {
      written += json.slice(kept, at);
      kept = at + 1;
    }
  }
  return written + json.slice(kept);
}

/**
 * Joins text parts with line breaks, and notes where pictures and sounds stand, like llama.cpp: no line break before
 * the first part that is not empty, nor beside a picture or sound.
 */
function toContent({ content }: Message, param: string): Pick<NativeMessage, 'content' | 'media'> {
  if (typeof content === 'string') return { content };
  const media: NativeMedia[] = [];
  let text = '';
  let bytes = 0;
  let isAfterText = true;
  for (const [index, part] of content.entries()) {
    if (part.type === 'text') {
      // Halves of a surrogate pair on both sides of a picture would be one character once they are joined.
      const own = part.text.toWellFormed();
      const piece = text === '' || !isAfterText ? own : `\n${own}`;
      text += piece;
      bytes += Buffer.byteLength(piece);
      isAfterText = true;
      continue;
    }
    if (part.type === 'image_url')
      throw invalid(
        `${param}.content[${String(index)}]`,
        'must be in base64 (a data URL, or source.type "base64"): local models fetch nothing',
      );
    media.push({ type: part.type, data: part.data, at: bytes, part: index });
    isAfterText = false;
  }
  return { content: text, ...(media.length === 0 ? {} : { media }) };
}

/** The contents of a chat completion's choices, and of the chunks of a choice. */
import type { Collector } from '../collect.ts';
import type { AnswerEvent, GenerateEvent, StartEvent, TokenLogprobs, ToolCallEvent } from '../generate.ts';
import { given } from '../given.ts';

export function toChatContent({ text, reasoning, toolCalls, logprobs }: Collector): object {
  const message = {
    role: 'assistant',
    // null: only tool calls.
    content: text === '' && toolCalls.length > 0 ? null : text,
    refusal: null,
    ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
    ...(toolCalls.length === 0
      ? {}
      : { tool_calls: toolCalls.map(({ id, ...call }) => ({ id, type: 'function', function: call })) }),
  };
  return { message, logprobs: toLogprobs(logprobs) };
}

/** Returns a function that converts each event of a choice, in order, to the contents of its chunks. */
export function chatContents(): (event: AnswerEvent) => readonly object[] {
  let opening: object[] = [toContent({ role: 'assistant', content: '' })];
  return (event) => {
    if (event.type === 'route' || event.type === 'start') return [];
    const contents = [...opening, pieceOf(event)];
    opening = [];
    return contents;
  };
}

function pieceOf(event: Exclude<GenerateEvent, StartEvent>): object {
  switch (event.type) {
    case 'text':
      return toContent({ content: event.text }, event.logprobs);
    case 'reasoning':
      return toContent({ reasoning_content: event.text });
    case 'tool_call':
      return toContent(toToolCallDelta(event));
    case 'finish':
      return toContent({});
  }
}

function toContent(delta: object, logprobs: readonly TokenLogprobs[] = []): object {
  return { delta, logprobs: toLogprobs(logprobs) };
}

function toToolCallDelta({ index, id, name, arguments: piece }: ToolCallEvent): object {
  return {
    tool_calls: [
      {
        index,
        ...(id === undefined ? {} : { id, type: 'function' }),
        function: { ...given({ name }), arguments: piece },
      },
    ],
  };
}

function toLogprobs(logprobs: readonly TokenLogprobs[]): object | null {
  if (logprobs.length === 0) return null;
  return { content: logprobs.map(({ top, ...token }) => ({ ...token, top_logprobs: top })), refusal: null };
}

/** Anthropic's answer: whole, and the parts that its stream has, too. */
import { toCarried } from '../history/carried-reasoning.ts';
import type { Collector } from '../collect.ts';
import type { FinishEvent, StartEvent, ToolCall } from '../generate.ts';
import { parsedJson } from '../foreign-text.ts';
import { toStopReason } from './stop-reason.ts';
import { toCounts } from './usage.ts';

/** What an answer needs of its request. */
export interface AnswerOptions {
  /** Id of the HTTP request. */
  readonly id: string;
  /** False: thinking blocks have no text; their signatures carry it. */
  readonly showsThinking: boolean;
  /** 0: the answer has no content. */
  readonly maxTokens: number;
}

/**
 * The signature of a block of thoughts. Clients send it back as it is, beside the text: if the client gets no text, it
 * carries the thoughts.
 */
export function toSignature(thoughts: string, showsThinking: boolean): string {
  return showsThinking ? 'svc' : toCarried(thoughts);
}

/** The message before its content. No input token is known to be cached yet. */
export function toHead(id: string, { model, input_tokens = 0 }: StartEvent): object {
  return {
    id: `msg_${id}`,
    type: 'message',
    role: 'assistant',
    model,
    content: [],
    stop_reason: null,
    stop_sequence: null,
    stop_details: null,
    container: null,
    usage: toUsage({ input_tokens, output_tokens: 0, cached_tokens: 0 }),
  };
}

/** `truncated_tokens`: our extension, only on request. */
export function toUsage(usage: FinishEvent['usage']): object {
  const truncated = usage?.truncated_tokens;
  return {
    ...toCounts(usage),
    cache_creation: null,
    server_tool_use: null,
    service_tier: 'standard',
    ...(truncated === undefined ? {} : { truncated_tokens: truncated }),
  };
}

/** The whole answer. */
export function toMessage(answer: Collector, { id, showsThinking, maxTokens }: AnswerOptions): object {
  const { start, finish, text, reasoning, toolCalls } = answer;
  const signature = toSignature(reasoning, showsThinking);
  const thinking = { type: 'thinking', thinking: showsThinking ? reasoning : '', signature };
  return {
    ...toHead(id, start),
    content: [
      ...(reasoning === '' ? [] : [thinking]),
      // Clients read a text unless there is a call.
      ...(text === '' && (toolCalls.length > 0 || maxTokens === 0) ? [] : [{ type: 'text', text }]),
      ...toolCalls.map(toToolUse),
    ],
    stop_reason: toStopReason(finish, start.provider, maxTokens),
    stop_sequence: finish.stop_string ?? null,
    usage: toUsage(finish.usage),
  };
}

/** Arguments that a model without a schema wrote, or that were cut off, may be invalid: no input then. */
function toToolUse({ id, name, arguments: json }: ToolCall): object {
  const input = parsedJson(json);
  const isObject = typeof input === 'object' && input !== null && !Array.isArray(input);
  return { type: 'tool_use', id, name, input: isObject ? input : {} };
}

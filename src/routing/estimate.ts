/**
 * Estimates the tokens of an answer whose usage is unknown: it was cut off, or its provider reported none. Quotas and
 * budgets count the estimate, so a client cannot avoid them by leaving early.
 */
import type { EmbedRequest } from '../protocol/embed.ts';
import type { GenerateRequest } from '../protocol/generate.ts';
import type { RerankRequest } from '../protocol/rerank.ts';
import type { BackendEvent } from './attempts.ts';

const BYTES_PER_TOKEN = 4;

export function tokensIn(bytes: number): number {
  return Math.ceil(bytes / BYTES_PER_TOKEN);
}

/** Tokens of a request's prompt, of any kind: its texts, token ids and tools. Pictures and sounds are not counted. */
export function inputTokens(request: Partial<GenerateRequest & EmbedRequest & RerankRequest>): number {
  const { messages = [], tools, raw, input, query, documents } = request;
  const read = messages.map(({ content, ...message }) =>
    typeof content === 'string' ? { ...message, content } : [message, content.filter(({ type }) => type === 'text')],
  );
  return tokensIn(bytesOf([read, tools && JSON.stringify(tools), raw, input, query, documents]));
}

/** Bytes of an answer's text, reasoning or tool call. */
export function sentBytes(event: BackendEvent): number {
  if (event.type === 'tool_call') return bytesOf([event.name, event.arguments]);
  return event.type === 'text' || event.type === 'reasoning' ? bytesOf(event.text) : 0;
}

/** Bytes of all texts in a value, in UTF-8. A number is a token id. */
function bytesOf(value: unknown): number {
  if (typeof value === 'string') return Buffer.byteLength(value);
  if (typeof value === 'number') return BYTES_PER_TOKEN;
  if (typeof value !== 'object' || value === null) return 0;
  return Object.values(value).reduce<number>((sum, each) => sum + bytesOf(each), 0);
}

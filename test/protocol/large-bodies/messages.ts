/** Bodies of Anthropic's API. */
import { parseCountTokens, parseMessages } from '../../../src/protocol/anthropic/messages-request.ts';
import { CALLS, grouped, HI, list, type Body, type LargeBody } from './large-body.ts';

const anthropic = (name: string, most: number, make: (size: number) => Body): LargeBody => ({
  name: `messages, ${name}`,
  most,
  make: (size) => ({ max_tokens: 1, messages: [HI], ...make(size) }),
  read: (body) => parseMessages(body).request,
});
const anthropicCalls = (size: number): object[] =>
  grouped(
    list(size, (index) => ({ type: 'tool_use', id: `c${String(index)}`, name: 'a', input: {} })),
    CALLS,
  ).map((content) => ({ role: 'assistant', content }));

export const ANTHROPIC: readonly LargeBody[] = [
  anthropic('results by id', 9000, (size) => ({
    messages: [
      ...anthropicCalls(size),
      ...grouped(
        list(size, (index) => ({ type: 'tool_result', tool_use_id: `c${String(index)}` })),
        CALLS,
      ).map((content) => ({ role: 'user', content })),
    ],
  })),
  anthropic('messages of one turn', 10_000, (size) => ({ messages: list(size, () => HI) })),
  anthropic('system messages', 10_000, (size) => ({
    system: 'a',
    messages: [HI, ...list(size - 1, () => ({ role: 'system', content: 'a', clear_at: 'never' }))],
  })),
  anthropic('blocks of the system prompt', 1024, (size) => ({
    system: list(size, () => ({ type: 'text', text: 'a' })),
  })),
  anthropic('blocks', 20_000, (size) => ({
    messages: grouped(
      list(size, () => ({ type: 'text', text: 'a' })),
      1000,
    ).map((content) => ({ role: 'user', content })),
  })),
  anthropic('texts of documents', 10_000, (size) => ({
    messages: grouped(
      list(size, () => ({ type: 'text', text: 'a' })),
      1000,
    ).map((content) => ({
      role: 'user',
      content: [{ type: 'document', title: 'a', source: { type: 'content', content } }],
    })),
  })),
  anthropic('references to deferred tools', 512, (size) => ({
    tools: list(size, (index) => ({ name: `f${String(index)}`, input_schema: {}, defer_loading: true })),
    messages: [
      ...anthropicCalls(20),
      {
        role: 'user',
        content: list(20, (result) => ({
          type: 'tool_result',
          tool_use_id: `c${String(result)}`,
          content: list(size, (index) => ({ type: 'tool_reference', tool_name: `f${String(index)}` })),
        })),
      },
    ],
  })),
  {
    name: 'count_tokens, results by id',
    most: 9000,
    make: (size) => ({
      messages: [
        ...anthropicCalls(size),
        ...grouped(
          list(size, (index) => ({ type: 'tool_result', tool_use_id: `c${String(index)}` })),
          CALLS,
        ).map((content) => ({ role: 'user', content })),
      ],
    }),
    read: (body) => parseCountTokens(body).request,
  },
];

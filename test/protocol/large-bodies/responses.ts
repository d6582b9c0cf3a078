/** Bodies of the Responses API. */
import type { Exchange } from '../../../src/daemon/http/exchange.ts';
import { conversationOf } from '../../../src/daemon/http/openai/responses/conversation.ts';
import type { ContentItem } from '../../../src/protocol/openai/responses/items.ts';
import { parseResponses } from '../../../src/protocol/openai/responses/request.ts';
import { CALLS, grouped, HI, list, type Body, type LargeBody } from './large-body.ts';

const responses = (name: string, most: number, make: (size: number) => Body): LargeBody => ({
  name: `responses, ${name}`,
  most,
  make: (size) => ({ input: 'hi', ...make(size) }),
  read: (body) => parseResponses(body),
});
const responsesCall = (index: number): object => ({
  type: 'function_call',
  call_id: `c${String(index)}`,
  name: 'a',
  arguments: '{}',
});
const responsesResult = (index: number): object => ({
  type: 'function_call_output',
  call_id: `c${String(index)}`,
  output: '',
});
/** Reads references into one stored response with these items. */
async function readReferences({ items, ...body }: Body): Promise<unknown> {
  const responses = {
    open: async () => undefined,
    bytesOf: () => 0,
    find: async () => ({ input: items as readonly ContentItem[], response: { output: [] } }),
  };
  const exchange = { services: { responses }, body: { add: () => true } } as object as Exchange;
  const call = parseResponses(body);
  const { messages } = await conversationOf(exchange, call, 'owner');
  return { ...call.request, messages };
}
const storedId = (index: number): string => `msg_${'0'.repeat(32)}_in${String(index)}`;
const functionTool = (index: number): object => ({ type: 'function', name: `f${String(index)}` });

export const RESPONSES: readonly LargeBody[] = [
  responses('results by id', 5000, (size) => ({
    input: [
      HI,
      ...grouped(
        list(size, (index) => index),
        CALLS,
      ).flatMap((group) => [
        { type: 'reasoning', summary: [{ type: 'summary_text', text: 'hm' }] },
        ...group.map(responsesCall),
        ...group.map(responsesResult),
      ]),
    ].slice(0, 10_000),
  })),
  responses('reasoning', 10_000, (size) => ({
    input: list(size, () => ({ type: 'reasoning', content: [{ type: 'reasoning_text', text: 'hm' }] })),
  })),
  responses('system messages', 10_000, (size) => ({ input: list(size, () => ({ role: 'system', content: 'a' })) })),
  responses('parts', 20_000, (size) => ({
    input: grouped(
      list(size, () => ({ type: 'input_text', text: 'a' })),
      1000,
    ).map((content) => ({ role: 'user', content })),
  })),
  {
    name: 'responses, references to stored items',
    most: 10_000,
    make: (size) => ({
      items: list(size, (index) => ({ ...HI, type: 'message', id: storedId(index) })),
      input: list(size, (index) => ({ type: 'item_reference', id: storedId(size - 1 - index) })),
    }),
    read: readReferences,
  },
  responses('functions in namespaces, and allowed ones', 512, (size) => ({
    tools: list(64, (group) => ({
      type: 'namespace',
      name: `group${String(group)}`,
      tools: list(size, functionTool),
    })),
    tool_choice: {
      type: 'allowed_tools',
      mode: 'auto',
      tools: list(size, (index) => ({ ...functionTool(index), namespace: 'group0' })),
    },
  })),
  responses('tools of other types', 512, (size) => ({
    tools: list(size, (index) => ({ type: `other${String(index)}` })),
  })),
];

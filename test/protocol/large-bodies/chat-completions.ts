/** Bodies of OpenAI's chat completions. */
import { type GenerateRequest } from '../../../src/protocol/generate.ts';
import { parseChatCompletion } from '../../../src/protocol/openai/chat-request.ts';
import { CALLS, grouped, HI, list, LONG, PIXEL, type Body, type LargeBody } from './large-body.ts';

const chat = (body: Body): GenerateRequest => parseChatCompletion(body).request;
const openAiCalls = (size: number): object[] =>
  grouped(
    list(size, (index) => ({ id: `c${String(index)}`, type: 'function', function: { name: 'a', arguments: '{}' } })),
    CALLS,
  ).map((tool_calls) => ({ role: 'assistant', tool_calls }));
const openAi = (name: string, most: number, make: (size: number) => Body): LargeBody => ({
  name: `chat completions, ${name}`,
  most,
  make: (size) => ({ messages: [HI], ...make(size) }),
  read: chat,
});
const OPENAI_TOOL = (index: number): object => ({
  type: 'function',
  function: { name: `f${String(index)}`, parameters: { type: 'object', properties: { a: { type: 'string' } } } },
});

export const CHAT: readonly LargeBody[] = [
  openAi('results by id', 9900, (size) => ({
    messages: [
      ...openAiCalls(size),
      ...list(size, (index) => ({ role: 'tool', content: '', tool_call_id: `c${String(index)}` })),
    ],
  })),
  openAi('results by id, last call first', 9900, (size) => ({
    messages: [
      ...openAiCalls(size),
      ...list(size, (index) => ({ role: 'tool', content: '', tool_call_id: `c${String(size - 1 - index)}` })),
    ],
  })),
  openAi('results in order', 9900, (size) => ({
    messages: [...openAiCalls(size), ...list(size, () => ({ role: 'tool', content: '' }))],
  })),
  openAi('messages', 10_000, (size) => ({ messages: list(size, () => HI) })),
  openAi('system messages', 10_000, (size) => ({
    messages: [...list(size - 1, () => ({ role: 'system', content: 'a' })), HI],
  })),
  openAi('parts', 20_000, (size) => ({
    messages: grouped(
      list(size, () => ({ type: 'text', text: 'a' })),
      1000,
    ).map((content) => ({ role: 'user', content })),
  })),
  openAi('pictures after a long text', 1000, (size) => ({
    messages: [
      {
        role: 'user',
        content: [
          { type: 'text', text: LONG },
          ...list(size, () => ({ type: 'image_url', image_url: { url: `data:image/png;base64,${PIXEL}` } })),
        ],
      },
    ],
  })),
  openAi('texts between pictures', 128, (size) => ({
    messages: [
      {
        role: 'user',
        content: list(size, (index) =>
          index % 2 === 0
            ? { type: 'text', text: LONG.slice(0, 16_384) }
            : { type: 'image_url', image_url: { url: `data:image/png;base64,${PIXEL}` } },
        ),
      },
    ],
  })),
  openAi('pictures in results', 10_000, (size) => ({
    messages: [
      ...openAiCalls(50),
      ...list(50, (index) => ({
        role: 'tool',
        tool_call_id: `c${String(index)}`,
        content: list(size / 50, () => ({
          type: 'image_url',
          image_url: { url: `data:image/png;base64,${PIXEL}` },
        })),
      })),
    ],
  })),
  openAi('arguments with escapes', 2_000_000, (size) => ({
    messages: [
      HI,
      {
        role: 'assistant',
        tool_calls: [
          {
            id: 'a',
            type: 'function',
            function: { name: 'a', arguments: `{ "a" : "${'\\n\\u0041'.repeat(size / 8)}" }` },
          },
        ],
      },
    ],
  })),
  openAi('arguments cut off', 2_000_000, (size) => ({
    messages: [
      HI,
      {
        role: 'assistant',
        tool_calls: [
          { id: 'a', type: 'function', function: { name: 'a', arguments: `{ "a" : "${'\\"'.repeat(size / 2)}` } },
        ],
      },
    ],
  })),
  openAi('tools', 512, (size) => ({ tools: list(size, OPENAI_TOOL), tool_choice: 'required' })),
  openAi('tools, the last of which must be called', 512, (size) => ({
    tools: list(size, OPENAI_TOOL),
    tool_choice: { type: 'function', function: { name: `f${String(size - 1)}` } },
  })),
  openAi('properties of a schema', 1500, (size) => ({
    json_schema: {
      type: 'object',
      properties: Object.fromEntries(list(size, (index) => [`p${String(index)}`, { type: 'string' }])),
    },
  })),
  openAi('values of a schema', 4096, (size) => ({ json_schema: { enum: list(size, (index) => `v${String(index)}`) } })),
  openAi('alternatives of a schema', 1500, (size) => ({
    json_schema: { anyOf: list(size, (index) => ({ const: `v${String(index)}`, type: 'string' })) },
  })),
  openAi('references of a schema', 1300, (size) => ({
    json_schema: {
      anyOf: list(size, (index) => ({ $ref: `#/$defs/${String(index)}` })),
      $defs: Object.fromEntries(list(size, (index) => [String(index), { const: index }])),
    },
  })),
  openAi('logit_bias', 1024, (size) => ({
    logit_bias: Object.fromEntries(list(size, (index) => [String(index), 1])),
  })),
  openAi('fields without a meaning', 90_000, (size) =>
    Object.fromEntries(list(size, (index) => [`f${String(index)}`, null])),
  ),
];

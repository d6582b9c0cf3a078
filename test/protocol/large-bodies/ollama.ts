/** Bodies of Ollama's API. */
import { parseOllamaChat } from '../../../src/protocol/ollama/chat-request.ts';
import { toContext } from '../../../src/protocol/ollama/context.ts';
import { parseOllamaEmbed } from '../../../src/protocol/ollama/embed.ts';
import { parseOllamaGenerate } from '../../../src/protocol/ollama/generate-request.ts';
import { CALLS, grouped, HI, list, PIXEL, type Body, type LargeBody } from './large-body.ts';

const ollama = (name: string, most: number, make: (size: number) => Body): LargeBody => ({
  name: `api/chat, ${name}`,
  most,
  make: (size) => ({ model: 'm', messages: [HI], ...make(size) }),
  read: (body) => parseOllamaChat(body).request,
});
const ollamaCalls = (size: number, name: (index: number) => string): object[] =>
  grouped(
    list(size, (index) => ({ id: `c${String(index)}`, function: { name: name(index) } })),
    CALLS,
  ).map((tool_calls) => ({ role: 'assistant', tool_calls }));
const toolName = (index: number): string => `f${String(index)}`;

export const OLLAMA: readonly LargeBody[] = [
  ollama('results by id', 9900, (size) => ({
    messages: [
      ...ollamaCalls(size, () => 'a'),
      ...list(size, (index) => ({ role: 'tool', tool_call_id: `c${String(size - 1 - index)}` })),
    ],
  })),
  ollama('results by tool', 9900, (size) => ({
    messages: [
      ...ollamaCalls(size, toolName),
      ...list(size, (index) => ({ role: 'tool', tool_name: toolName(size - 1 - index) })),
    ],
  })),
  ollama('results of one tool', 9900, (size) => ({
    messages: [...ollamaCalls(size, () => 'a'), ...list(size, () => ({ role: 'tool', tool_name: 'a' }))],
  })),
  ollama('results in order', 9900, (size) => ({
    messages: [...ollamaCalls(2 * size, toolName), ...list(size, () => ({ role: 'tool' }))],
  })),
  ollama('results without calls', 5000, (size) => ({ messages: list(size, () => ({ role: 'tool', tool_name: 'a' })) })),
  ollama('pictures', 1024, (size) => ({ messages: [{ ...HI, images: list(size, () => PIXEL) }] })),
  ollama('tools', 512, (size) => ({
    tools: list(size, (index) => ({
      type: 'function',
      function: { name: toolName(index), parameters: { type: 'object' } },
    })),
  })),
  {
    name: 'api/generate, context',
    most: 8000,
    make: (size) => ({
      model: 'm',
      prompt: 'hi',
      context: toContext(
        list(size, (index) => ({ role: 'user', content: `message ${String(index)}` })),
        '',
      ),
    }),
    read: (body) => parseOllamaGenerate(body).request,
  },
  {
    name: 'api/embed, inputs',
    most: 90_000,
    make: (size) => ({ model: 'm', input: list(size, () => 'a') }),
    read: (body) => parseOllamaEmbed(body),
  },
];

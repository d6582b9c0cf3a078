/** Requests with tools: the time of the chat template and of the grammar. */
import { ask, ttft, type Question } from '../ask.ts';
import { time, user, type Scenario } from '../scenario.ts';
import { words } from '../words.ts';

const PEER = 'llama-server';
const TOOLS = 20;

/** The first request computes the tools, too; the other two find them in the prefix cache. */
export const twentyTools: Scenario = {
  name: `a question of 12 words with ${String(TOOLS)} tools`,
  servers: ['svc', PEER],
  figures: [
    time('first token', { server: PEER, ratio: 1 }),
    time('first token of another question with the same tools', { server: PEER, ratio: 1 }),
    // llama-server's grammar lets a model write text before the call, which one with random weights does.
    time('first piece of a call that must happen, with the same tools'),
  ],
  seconds: 12,
  measure: async (server) => {
    const tools = Array.from({ length: TOOLS }, (_, n) => tool(n));
    const question = (more: object): Question => ({ ...user(words(12), 32), more: { tools, ...more } });
    const first = await ask(server, question({}));
    const second = await ask(server, question({}));
    const call = await ask(server, question({ tool_choice: 'required' }));
    return [ttft(first), ttft(second), call.firstCall];
  },
};

/** About 130 tokens, with other words each time. */
function tool(n: number): object {
  return {
    type: 'function',
    function: {
      name: `tool_${String(n)}`,
      description: words(30),
      parameters: {
        type: 'object',
        properties: {
          name: { type: 'string', description: words(8) },
          count: { type: 'integer', description: words(8), minimum: 0, maximum: 1000 },
          kind: { type: 'string', enum: ['small', 'medium', 'large'] },
          parts: { type: 'array', items: { type: 'string' }, maxItems: 10 },
        },
        required: ['name', 'count'],
        additionalProperties: false,
      },
    },
  };
}

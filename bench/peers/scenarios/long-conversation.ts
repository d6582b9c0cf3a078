/** A prompt as long as a coding agent's, and what its next turns compute again. */
import { ask, ttft, type Answer, type Message } from '../ask.ts';
import { time, type Scenario } from '../scenario.ts';
import { words } from '../words.ts';

const PEER = 'llama-server';
const TOKENS = 31_000;
/** Approximate number of tokens that a chat template adds. */
const TEMPLATE_TOKENS = 20;

/** `seconds`: expected duration of a turn. */
export const longConversation = (seconds: number): Scenario => ({
  name: `a prompt of ${TOKENS.toLocaleString('en-US')} tokens`,
  servers: ['svc', PEER],
  figures: [
    time('first token', { server: PEER, ratio: 1 }),
    time('first token of the second turn', { server: PEER, ratio: 1 }),
    {
      name: 'first token of a third turn after the engine was restarted, against the first turn',
      unit: 'ratio',
      isMoreBetter: false,
      bars: [{ limit: 0.1 }],
    },
  ],
  seconds,
  isOnce: true,
  measure: async (server) => {
    const opened: Message[] = [{ role: 'user', content: words(TOKENS - TEMPLATE_TOKENS) }];
    const first = await ask(server, { messages: opened, maxTokens: 8 });
    const continued = goOn(opened, first);
    const second = await ask(server, { messages: continued, maxTokens: 8 });
    if (server.restartEngine === null) return [ttft(first), ttft(second), null];
    await server.restartEngine();
    const third = await ask(server, { messages: goOn(continued, second), maxTokens: 8 });
    return [ttft(first), ttft(second), ttft(third) / ttft(first)];
  },
});

const goOn = (messages: readonly Message[], { text }: Answer): Message[] => [
  ...messages,
  { role: 'assistant', content: text },
  { role: 'user', content: words(12) },
];

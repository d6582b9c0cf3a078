/** Prefix reuse of conversations: between turns, and after a restart of the engine. */
import { ask, ttft, type Answer, type Message } from '../ask.ts';
import { median, time, type Scenario } from '../scenario.ts';
import type { Server } from '../servers/server.ts';
import { words } from '../words.ts';

const PEER = 'llama-server';
const CONVERSATIONS = 10;

/** One request at a time. The first turn is cold and has the shortest prompt. */
export const conversations: Scenario = {
  name: '10 conversations in turn',
  servers: ['svc', PEER],
  figures: [
    time('first token of the second turn, median', { server: PEER, ratio: 1 }),
    {
      name: 'first token of a third turn after the engine was restarted, against the first turn',
      unit: 'ratio',
      isMoreBetter: false,
      bars: [{ limit: 0.15 }],
    },
  ],
  seconds: 35,
  measure: async (server) => {
    const opened = Array.from({ length: CONVERSATIONS }, (): Message[] => [{ role: 'user', content: words(300) }]);
    const first = await turn(server, opened);
    const second = await turn(server, first.continued);
    if (server.restartEngine === null) return [second.ttft, null];
    await server.restartEngine();
    const third = await turn(server, second.continued);
    return [second.ttft, third.ttft / first.ttft];
  },
};

/** Asks in each conversation once; returns the conversations with the answer and the next question. */
async function turn(
  server: Server,
  all: readonly (readonly Message[])[],
): Promise<{ readonly ttft: number; readonly continued: readonly (readonly Message[])[] }> {
  const times: number[] = [];
  const continued: (readonly Message[])[] = [];
  for (const messages of all) {
    const answer = await ask(server, { messages, maxTokens: 8 });
    times.push(ttft(answer));
    continued.push([...messages, reply(answer), { role: 'user', content: words(12) }]);
  }
  return { ttft: median(times), continued };
}

const reply = ({ text }: Answer): Message => ({ role: 'assistant', content: text });

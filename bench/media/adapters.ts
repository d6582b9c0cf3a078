/** LoRA adapters, as a scenario of bench:peers. */
import { ask, ttft, type Question } from '../peers/ask.ts';
import { speed, together, user, type Scenario } from '../peers/scenario.ts';
import type { Server } from '../peers/servers/server.ts';
import { words } from '../peers/words.ts';

const PEER = 'llama-server -np 8';
const STREAMS = 8;
const TOKENS = 48;

/** A question answered with one of the server's adapters; null: with none. */
function withAdapter(server: Server, adapter: number | null, maxTokens: number): Question {
  const { adapters = [] } = server.options;
  const lora =
    server.name === 'svc'
      ? adapters.map((_, index) => ({ id: `lora-${String(index + 1)}`, scale: index === adapter ? 1 : 0 }))
      : adapters.map((_, index) => ({ id: index, scale: index === adapter ? 1 : 0 }));
  return { ...user(words(12), maxTokens), more: { lora } };
}

/** Tokens per second of all streams; the `n`th has the adapter `adapterOf(n)`. */
async function speedOf(server: Server, adapterOf: (stream: number) => number | null): Promise<number> {
  const questions = Array.from({ length: STREAMS }, (_, stream) => withAdapter(server, adapterOf(stream), TOKENS));
  return (await together(server, questions)).tokensPerSecond;
}

/** Milliseconds from a request to its first token, summed over requests after one another. */
async function waits(server: Server, adapterOf: (request: number) => number): Promise<number> {
  let sum = 0;
  for (let request = 0; request < STREAMS; request += 1) {
    sum += ttft(await ask(server, withAdapter(server, adapterOf(request), 1)));
  }
  return sum;
}

export const manyAdapters: Scenario = {
  name: `${String(STREAMS)} streams with LoRA adapters`,
  servers: ['svc', PEER],
  figures: [
    speed('none', { server: PEER, ratio: 0.9 }),
    speed('one for all', { server: PEER, ratio: 0.9 }),
    speed('four, two streams each', { server: PEER, ratio: 0.9 }),
    {
      name: 'one request after the other: first token with another adapter each time, against the same one',
      unit: 'ratio',
      isMoreBetter: false,
      bars: [{ limit: 1.1 }],
    },
  ],
  seconds: 40,
  measure: async (server) => [
    await speedOf(server, () => null),
    await speedOf(server, () => 0),
    await speedOf(server, (stream) => stream % 4),
    (await waits(server, (request) => request % 4)) / (await waits(server, () => 0)),
  ],
};

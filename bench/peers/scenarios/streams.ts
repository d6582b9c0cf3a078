/** Plain speed: one stream, one prompt, eight streams at once. */
import { ask, decodeSpeed, ttft } from '../ask.ts';
import { speed, together, user, type Bar, type Scenario } from '../scenario.ts';
import type { ServerName } from '../servers/server.ts';
import { words } from '../words.ts';

interface Load {
  readonly servers: readonly ServerName[];
  /** Targets. */
  readonly bars: readonly Bar[];
  readonly tokens: number;
  /** Expected duration of a turn. */
  readonly seconds: number;
}

export const oneStream = ({ servers, bars, tokens, seconds }: Load): Scenario => ({
  name: 'one stream',
  servers,
  figures: [speed('decode', ...bars)],
  seconds,
  measure: async (server) => [decodeSpeed(await ask(server, user(words(12), tokens)))],
});

/** `tokens`: length of the whole prompt; the answer has one token. */
export const prefill = ({ servers, bars, tokens, seconds }: Load): Scenario => ({
  name: `a prompt of ${tokens.toLocaleString('en-US')} tokens`,
  servers,
  figures: [speed('prefill', ...bars)],
  seconds,
  measure: async (server) => {
    const answer = await ask(server, user(words(tokens - TEMPLATE_TOKENS), 1));
    return [((answer.inputTokens - answer.cachedTokens) * 1000) / ttft(answer)];
  },
});

/** Approximate number of tokens that a chat template adds to a prompt. */
const TEMPLATE_TOKENS = 20;

/** `tokens`: length of each answer. */
export const eightStreams = ({ servers, bars, tokens, seconds }: Load): Scenario => ({
  name: '8 streams at once',
  servers,
  figures: [speed('all together', ...bars)],
  seconds,
  measure: async (server) => {
    const questions = Array.from({ length: 8 }, () => user(words(12), tokens));
    return [(await together(server, questions)).tokensPerSecond];
  },
});

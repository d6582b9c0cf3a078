/** What is measured, and what has to come out of it. Each scenario asks one server and gives one figure or several. */
import { spawn, type ChildProcess } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { ask, decodeSpeed, longestGap, ttft, type Answer, type Message, type Question } from './ask.ts';
import type { Server } from './servers.ts';
import { words } from './words.ts';

export interface Figure {
  readonly name: string;
  readonly unit: 'tokens/s' | 'ms' | 'MB' | 'ratio';
  readonly isMoreBetter: boolean;
  /** Against which server, and the ratio of ours to theirs that has to be reached. Absent: told without a bar. */
  readonly must?: readonly { readonly server: string; readonly ratio: number }[];
}

export interface Scenario {
  readonly name: string;
  readonly figures: readonly Figure[];
  /** Servers that are asked. Absent: svc and llama-server with its defaults. */
  readonly servers?: readonly string[];
  /** In the order of `figures`. */
  measure(server: Server): Promise<readonly number[]>;
}

const SVC = 'svc';
const PEER = 'llama-server';
const PEER_8 = 'llama-server -np 8';

const user = (content: string, maxTokens: number): Question => ({ messages: [{ role: 'user', content }], maxTokens });
const speed = (must: Figure['must'], name = 'decode'): Figure => ({
  name,
  unit: 'tokens/s',
  isMoreBetter: true,
  ...(must === undefined ? {} : { must }),
});
const time = (name: string, ratio: number): Figure => ({
  name,
  unit: 'ms',
  isMoreBetter: false,
  must: [{ server: PEER, ratio }],
});

const oneStream: Scenario = {
  name: 'one stream',
  figures: [speed([{ server: PEER, ratio: 1 }])],
  measure: async (server) => [decodeSpeed(await ask(server, user(words(12), 128)))],
};

const prefill = (tokens: number): Scenario => ({
  name: `a prompt of ${tokens.toLocaleString('en-US')} tokens`,
  figures: [speed([{ server: PEER, ratio: 1 }], 'prefill')],
  measure: async (server) => {
    const answer = await ask(server, user(words(tokens - 20), 1));
    return [((answer.inputTokens - answer.cachedTokens) * 1000) / ttft(answer)];
  },
});

const together = async (
  server: Server,
  questions: readonly Question[],
): Promise<[answers: Answer[], seconds: number]> => {
  const from = performance.now();
  const answers = await Promise.all(questions.map((question) => ask(server, question)));
  return [answers, (performance.now() - from) / 1000];
};
const total = (answers: readonly Answer[]): number => answers.reduce((sum, { outputTokens }) => sum + outputTokens, 0);

const eightStreams: Scenario = {
  name: '8 streams at once',
  servers: [SVC, PEER, PEER_8],
  figures: [
    speed(
      [
        { server: PEER, ratio: 1.35 },
        { server: PEER_8, ratio: 1 },
      ],
      'all together',
    ),
  ],
  measure: async (server) => {
    const questions = Array.from({ length: 8 }, () => user(words(12), 48));
    const [answers, seconds] = await together(server, questions);
    return [total(answers) / seconds];
  },
};

const sharedPrefix: Scenario = {
  name: '8 clients at once, one system prompt of 740 tokens',
  figures: [time('first token, median', 0.3)],
  measure: async (server) => {
    const system: Message = { role: 'system', content: words(730) };
    const questions = Array.from({ length: 8 }, () => ({
      messages: [system, { role: 'user', content: words(12) } as const],
      maxTokens: 24,
    }));
    const [answers] = await together(server, questions);
    return [median(answers.map(ttft))];
  },
};

const longArrives: Scenario = {
  name: 'a prompt of 1,800 tokens arrives while 3 streams decode',
  figures: [time('longest gap between tokens', 1 / 30), time('first token of the prompt', 1.3)],
  measure: async (server) => {
    const streams = [1, 2, 3].map(() => ask(server, user(words(12), 160)));
    // Long enough for all three to have begun.
    await sleep(2500);
    const long = ask(server, user(words(1780), 4));
    const answers = await Promise.all(streams);
    return [Math.max(...answers.map(longestGap)), ttft(await long)];
  },
};

const shortBehindLong: Scenario = {
  name: 'a question of 12 words 0.3 s behind a prompt of 1,800 tokens',
  figures: [time('first token of the question', 1 / 15)],
  measure: async (server) => {
    const long = ask(server, user(words(1780), 4));
    await sleep(300);
    const short = await ask(server, user(words(12), 4));
    await long;
    return [ttft(short)];
  },
};

const conversation = (turns: readonly Message[], reply: Answer): Message[] => [
  ...turns,
  { role: 'assistant', content: reply.text },
  { role: 'user', content: words(12) },
];

/** First turns, then the second ones of the same conversations, one at a time. */
async function conversations(
  server: Server,
  between: () => Promise<void>,
): Promise<{ first: number[]; second: number[] }> {
  const opened: Message[][] = [];
  const first: number[] = [];
  for (let n = 0; n < 10; n += 1) {
    const turns: Message[] = [{ role: 'user', content: words(300) }];
    const reply = await ask(server, { messages: turns, maxTokens: 16 });
    first.push(ttft(reply));
    opened.push(conversation(turns, reply));
  }
  await between();
  const second: number[] = [];
  for (const messages of opened) second.push(ttft(await ask(server, { messages, maxTokens: 4 })));
  return { first, second };
}

const tenConversations: Scenario = {
  name: '10 conversations of 2 turns',
  figures: [time('first token of the second turn, median', 1)],
  measure: async (server) => [median((await conversations(server, () => Promise.resolve())).second)],
};

const afterRestart: Scenario = {
  name: '10 conversations, the engine restarted between the turns',
  servers: [SVC],
  figures: [{ name: 'first token of the second turn, against the first', unit: 'ratio', isMoreBetter: false }],
  measure: async (server) => {
    const { first, second } = await conversations(server, server.restartEngine ?? (() => Promise.resolve()));
    return [median(second) / median(first)];
  },
};

const busyMachine: Scenario = {
  name: 'one stream beside two busy loops',
  figures: [speed([{ server: PEER, ratio: 2 }])],
  measure: async (server) => {
    const loops = [1, 2].map(() => spawn('sh', ['-c', 'while :; do :; done'], { stdio: 'ignore' }));
    try {
      return [decodeSpeed(await ask(server, user(words(12), 64)))];
    } finally {
      await Promise.all(loops.map(kill));
    }
  },
};

const SCHEMA = {
  type: 'json_schema',
  json_schema: {
    name: 'people',
    strict: true,
    schema: {
      type: 'array',
      minItems: 100,
      items: {
        type: 'object',
        properties: {
          name: { type: 'string', maxLength: 12 },
          age: { type: 'integer', minimum: 1, maximum: 99 },
          married: { type: 'boolean' },
        },
        required: ['name', 'age', 'married'],
        additionalProperties: false,
      },
    },
  },
};

const schema: Scenario = {
  name: 'output by a JSON schema',
  servers: [SVC],
  figures: [{ name: 'decode, against free output', unit: 'ratio', isMoreBetter: true }],
  measure: async (server) => {
    const free = await ask(server, user(words(12), 128));
    const bound = await ask(server, { ...user(words(12), 128), more: { response_format: SCHEMA } });
    return [decodeSpeed(bound) / decodeSpeed(free)];
  },
};

const memory: Scenario = {
  name: 'resident memory of the process with the model, after all of the above',
  figures: [{ name: 'resident', unit: 'MB', isMoreBetter: false, must: [{ server: PEER, ratio: 1 }] }],
  measure: async (server) => [(await server.residentBytes()) / 1e6],
};

/** For a model of real shape. */
export const SCENARIOS: readonly Scenario[] = [
  oneStream,
  prefill(512),
  prefill(4096),
  eightStreams,
  sharedPrefix,
  longArrives,
  shortBehindLong,
  tenConversations,
  afterRestart,
  busyMachine,
  schema,
  memory,
];

/** For a model of 5 MB: what everything but the model costs. */
export const OVERHEAD_SCENARIOS: readonly Scenario[] = [
  {
    name: 'one stream, a model of 5 MB',
    figures: [speed([{ server: PEER, ratio: 1.5 }])],
    measure: async (server) => [decodeSpeed(await ask(server, user(words(12), 512)))],
  },
  {
    name: '8 streams, a model of 5 MB',
    figures: [speed([{ server: PEER, ratio: 1.5 }], 'all together')],
    measure: async (server) => {
      const [answers, seconds] = await together(
        server,
        Array.from({ length: 8 }, () => user(words(12), 256)),
      );
      return [total(answers) / seconds];
    },
  },
];

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = (sorted.length - 1) / 2;
  return ((sorted[Math.floor(middle)] as number) + (sorted[Math.ceil(middle)] as number)) / 2;
}

async function kill(child: ChildProcess): Promise<void> {
  const ended = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGKILL');
  await ended;
}

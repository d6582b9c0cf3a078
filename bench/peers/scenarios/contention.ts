/** Contention: between clients, and with other programs on the machine. */
import { spawn } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { ask, decodeSpeed, longestGap, ttft, type Answer, type Message } from '../ask.ts';
import { median, settled, speed, time, together, user, type Scenario } from '../scenario.ts';
import { kill } from '../servers/processes.ts';
import { words } from '../words.ts';

const PEER = 'llama-server';

export const sharedPrefix: Scenario = {
  name: '8 clients at once, one system prompt of 740 tokens',
  servers: ['svc', PEER],
  figures: [time('first token, median', { server: PEER, ratio: 0.3 })],
  seconds: 16,
  measure: async (server) => {
    const system: Message = { role: 'system', content: words(730) };
    const { answers } = await together(
      server,
      Array.from({ length: 8 }, () => ({
        messages: [system, { role: 'user', content: words(12) } as const],
        maxTokens: 8,
      })),
    );
    return [median(answers.map(ttft))];
  },
};

/** The streams are long enough to last until the prompt has been computed. */
export const longArrives: Scenario = {
  name: 'a prompt of 1,800 tokens arrives while 3 streams decode',
  servers: ['svc', PEER],
  figures: [
    time('longest gap between tokens', { server: PEER, ratio: 1 / 30 }),
    time('first token of the prompt', { server: PEER, ratio: 1.3 }),
  ],
  seconds: 19,
  measure: async (server) => {
    const streams = [1, 2, 3].map(() => begin((onPiece) => ask(server, { ...user(words(12), 128), onPiece })));
    const long = Promise.all(streams.map(({ begun }) => begun)).then(() => ask(server, user(words(1780), 4)));
    const [answers, answer] = await settled<[Answer[], Answer]>([settled(streams.map((each) => each.answer)), long]);
    return [Math.max(...answers.map(longestGap)), ttft(answer)];
  },
};

/** `begun` resolves at the eighth piece, or when the answer ends. */
function begin(start: (onPiece: (count: number) => void) => Promise<Answer>): {
  readonly answer: Promise<Answer>;
  readonly begun: Promise<void>;
} {
  let begin: () => void = () => undefined;
  const begun = new Promise<void>((resolve) => (begin = resolve));
  const answer = start((count) => {
    if (count === 8) begin();
  });
  answer.then(begin, begin);
  return { answer, begun };
}

export const shortBehindLong: Scenario = {
  name: 'a question of 12 words 0.3 s behind a prompt of 1,800 tokens',
  servers: ['svc', PEER],
  figures: [time('first token of the question', { server: PEER, ratio: 1 / 15 })],
  seconds: 16,
  measure: async (server) => {
    const [, short] = await settled<[Answer, Answer]>([
      ask(server, user(words(1780), 4)),
      sleep(300).then(() => ask(server, user(words(12), 4))),
    ]);
    return [ttft(short)];
  },
};

export const busyMachine: Scenario = {
  name: 'one stream beside two busy loops',
  servers: ['svc', PEER],
  figures: [speed('decode', { server: PEER, ratio: 2 })],
  seconds: 7,
  measure: async (server) => {
    const loops = [1, 2].map(() => spawn('sh', ['-c', 'while :; do :; done'], { stdio: 'ignore' }));
    try {
      return [decodeSpeed(await ask(server, user(words(12), 48)))];
    } finally {
      await Promise.all(loops.map(kill));
    }
  },
};

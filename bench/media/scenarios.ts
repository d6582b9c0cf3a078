/** Pictures, sounds, and several choices of one prompt, as scenarios of bench:peers. */
import { randomBytes } from 'node:crypto';
import { png, wav } from '../../test/support/media-files.ts';
import { ask, ttft, type Message, type Question } from '../peers/ask.ts';
import { settled, time, user, type Scenario } from '../peers/scenario.ts';
import type { Server } from '../peers/servers/server.ts';
import { words } from '../peers/words.ts';

const PEER = 'llama-server';
const PEER_16 = 'llama-server -np 16';
const SIDE = 384;
const RATE = 16_000;
const SOUND_SECONDS = 10;
/** A tenth for noise: most of the time is the same code of libmtmd and ggml. */
const AS_FAST = { server: PEER, ratio: 1.1 } as const;

/** With a random pixel, so that no program has its embeddings. */
function picture(): object {
  const [red = 0, green = 0, blue = 0] = randomBytes(3);
  const bytes = png(SIDE, SIDE, (x, y) => (x + y === 0 ? [red, green, blue] : [x & 255, y & 255, (x + y) & 255]));
  return { type: 'image_url', image_url: { url: `data:image/png;base64,${bytes.toString('base64')}` } };
}

/** A tone of a random pitch. */
function sound(): object {
  const bytes = wav(RATE * SOUND_SECONDS, 200 + randomBytes(2).readUInt16LE() / 50, RATE);
  return { type: 'input_audio', input_audio: { data: bytes.toString('base64'), format: 'wav' } };
}

function about(part: object, maxTokens: number): Question {
  const message: Message = { role: 'user', content: [part, { type: 'text', text: words(12) }] };
  return { messages: [message], maxTokens };
}

const encoding = (name: string, part: () => object, seconds: number): Scenario => ({
  name,
  servers: ['svc', PEER],
  figures: [time('first token, minus that of the text alone', AS_FAST)],
  seconds,
  measure: async (server) => {
    const text = ttft(await ask(server, user(words(12), 1)));
    return [ttft(await ask(server, about(part(), 1))) - text];
  },
});

export const onePicture = encoding(`a picture of ${String(SIDE)} × ${String(SIDE)} pixels`, picture, 4);
export const oneSound = encoding(`a sound of ${String(SOUND_SECONDS)} s`, sound, 8);

/** Rows of a picture with its question. */
const ROWS = 600;

/** The bound is that of a prompt of text that arrives beside streams (bench:peers). */
export const picturesBeside: Scenario = {
  name: '8 questions about pictures beside 8 streams',
  servers: ['svc', PEER_16],
  figures: [
    time('longest gap between tokens of the streams', { server: PEER_16, ratio: 1 / 30 }),
    time(`the same beside 8 questions of ${String(ROWS)} words`),
    time('first token of the last picture'),
  ],
  seconds: 40,
  measure: async (server) => {
    const beside = await besideStreams(server, () => about(picture(), 1));
    if (server.name !== 'svc') return [beside.gap, null, beside.last];
    const text = await besideStreams(server, () => user(words(ROWS), 1));
    return [beside.gap, text.gap, beside.last];
  },
};

/** Longest gap of 8 streams until all of 8 questions have their first token, and the time until then. */
async function besideStreams(
  server: Server,
  question: () => Question,
): Promise<{ readonly gap: number; readonly last: number }> {
  const leaving = new AbortController();
  const times = Array.from({ length: 8 }, (): number[] => []);
  let begun = 0;
  let begin: () => void = () => undefined;
  const allBegun = new Promise<void>((resolve) => (begin = resolve));
  const streams = times.map((pieces) =>
    ask(server, {
      ...user(words(12), 1500),
      signal: leaving.signal,
      onPiece: (count) => {
        pieces.push(performance.now());
        if (count === 8 && (begun += 1) === times.length) begin();
      },
    }).catch((error: unknown) => {
      if (!leaving.signal.aborted) throw error;
    }),
  );
  try {
    // Before: pictures take so long to make that this program would read the streams late.
    const questions = Array.from({ length: 8 }, question);
    await Promise.race([allBegun, Promise.all(streams)]);
    const from = performance.now();
    const answers = await settled(questions.map((each) => ask(server, each)));
    const until = performance.now();
    // The gap in which the questions arrived counts, too.
    const gaps = times.map((pieces) => longestGap(pieces.filter((at) => at <= until)));
    if (times.some((pieces) => (pieces.at(-1) ?? 0) < from)) throw new Error('a stream has had no token meanwhile');
    return { gap: Math.max(...gaps), last: Math.max(...answers.map(ttft)) };
  } finally {
    leaving.abort();
    await Promise.allSettled(streams);
  }
}

/** From the eighth piece on: before it, the streams' own prompts are computed. */
function longestGap(pieces: readonly number[]): number {
  return Math.max(...pieces.slice(8).map((at, index) => at - (pieces[index + 7] as number)));
}

const CHOICES = 8;
const PROMPT = 1000;

export const eightChoices: Scenario = {
  name: `${String(CHOICES)} choices of one prompt of 1,000 tokens`,
  servers: ['svc'],
  figures: [
    {
      name: 'first token of all, against that of one choice',
      unit: 'ratio',
      isMoreBetter: false,
      bars: [{ limit: 1.3 }],
    },
    { name: 'the same with a seed', unit: 'ratio', isMoreBetter: false, bars: [{ limit: 1.3 }] },
  ],
  seconds: 25,
  measure: async (server) => {
    const last = async (more: object): Promise<number> =>
      Math.max(...(await ask(server, { ...user(words(PROMPT - 20), 4), more: { temperature: 1, ...more } })).firsts);
    const one = await last({ n: 1 });
    return [(await last({ n: CHOICES })) / one, (await last({ n: CHOICES, seed: 1 })) / one];
  },
};

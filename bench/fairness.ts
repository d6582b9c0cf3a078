/**
 * Time to first token of one API key's question while another key keeps one generation running, and while it keeps
 * sixty queued. Writes its section of docs/benchmarks.md; exits with 1 if the ratio exceeds the target.
 *
 *   npm run bench:fairness [-- REPETITIONS]
 */
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { addKey } from '../src/home/key-file.ts';
import { makeSubject, parts, vocabularySize } from './peers/subjects.ts';
import { ask, ttft, type Target } from './peers/ask.ts';
import { machine, writeSection } from './page.ts';
import { startDaemon } from './daemon.ts';

const TARGET = 1.5;
const MANY = 60;
const [repetitions = 9] = process.argv.slice(2).map(Number);
/** Words of the question: a short one, and one that takes several steps to read. */
const QUESTIONS = [8, 200] as const;

const [{ subjects }] = parts(dirname(dirname(fileURLToPath(import.meta.url))));
const [subject] = subjects;
if (subject === undefined) throw new Error('there is no model to measure');
await makeSubject(subject);
const daemon = await startDaemon({ models: { model: subject.model }, config: { engine: { context_length: 16_384 } } });
const target: Target = { url: daemon.url, vocabulary: await vocabularySize(subject.model) };
const keyFile = join(daemon.home, 'data', 'keys.json');
const [crowd, single] = [await addKey(keyFile, 'crowd', 'inference'), await addKey(keyFile, 'single', 'inference')];

let asked = 0;
/** Text that no other prompt begins with. */
const words = (count: number): string => `${String((asked += 1))} ${'sheep '.repeat(count)}`;
const message = (content: string) => [{ role: 'user', content }] as const;

/** Milliseconds to the first token of a question while `others` generations of the crowd run or wait. */
async function waitBeside(others: number, length: number): Promise<number> {
  const leaving = new AbortController();
  let started: () => void = () => undefined;
  const running = new Promise<void>((resolve) => (started = resolve));
  const crowded = Array.from({ length: others }, () =>
    ask(target, {
      messages: message(words(20)),
      maxTokens: 4000,
      key: crowd.key,
      signal: leaving.signal,
      onPiece: (count) => {
        if (count === 4) started();
      },
    }).catch((error: unknown) => {
      if (!leaving.signal.aborted) throw error;
    }),
  );
  await Promise.race([running, Promise.all(crowded)]);
  await queueHolds(others);
  const answer = await ask(target, { messages: message(words(length)), maxTokens: 4, key: single.key });
  leaving.abort();
  await Promise.all(crowded);
  await queueHolds(0);
  return ttft(answer);
}

async function queueHolds(count: number): Promise<void> {
  for (;;) {
    const { active, waiting } = (await daemon.client.health()).queue;
    if (count === 0 ? active + waiting === 0 : active + waiting >= count) return;
  }
}

const median = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[values.length >> 1] ?? NaN;
const rows: string[] = [];
let worst = 0;
try {
  for (const length of QUESTIONS) {
    const waits = new Map<number, number[]>([
      [1, []],
      [MANY, []],
    ]);
    for (let i = 0; i < repetitions; i += 1) {
      for (const [others, found] of waits) found.push(await waitBeside(others, length));
    }
    const [one, many] = [median(waits.get(1) ?? []), median(waits.get(MANY) ?? [])];
    worst = Math.max(worst, many / one);
    rows.push(`| ${String(length)} | ${one.toFixed(0)} ms | ${many.toFixed(0)} ms | ${(many / one).toFixed(2)} |`);
    console.log(rows.at(-1));
  }
} finally {
  await daemon.stop();
}
await writeSection(
  [
    '## Fairness between API keys',
    '',
    `Written by \`npm run bench:fairness\` on ${machine()}: the time to the first token of one API key's question while`,
    `another key keeps one generation running, and while it keeps ${String(MANY)} queued. Medians of ${String(repetitions)} interleaved`,
    `repetitions, over HTTP, Qwen2.5-0.5B shapes with random weights in Q4_0. Target: at most ${String(TARGET)} times.`,
    '',
    '| words of the question | beside 1 | beside 60 | ratio |',
    '|---|---|---|---|',
    ...rows,
    '',
  ].join('\n'),
);
if (worst > TARGET) process.exitCode = 1;

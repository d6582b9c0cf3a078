/**
 * Measures pictures, sounds, several choices and LoRA adapters beside llama-server on the same files, and compares
 * texts and scores with llama.cpp's programs.
 *
 *   npm run bench:media                                    everything, 9 minutes on two idle cores after the first
 *                                                          build; writes its section of docs/benchmarks.md
 *   npm run bench:media -- --only 'picture' --repetitions 1
 *
 * --only    scenarios whose name contains this text; `texts` and `scores` are the comparisons
 *
 * With any option, results are only printed; docs/benchmarks.md stays unchanged. Exits with 1 if a text, an order or a
 * score differs.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { buildLlamaServer } from './compare/llama-server.ts';
import { manyAdapters } from './media/adapters.ts';
import { eightChoices, onePicture, oneSound, picturesBeside } from './media/scenarios.ts';
import { compareScores, scoreLines, type Scores } from './media/scores.ts';
import { areEqual, compareTexts, textLines, type Texts } from './media/texts.ts';
import { machine, writeSection } from './page.ts';
import { compare, turnsOf } from './peers/compare.ts';
import { Progress } from './peers/progress.ts';
import { tables } from './peers/report.ts';
import type { Result } from './peers/results.ts';
import type { Scenario } from './peers/scenario.ts';
import type { Server } from './peers/servers/server.ts';
import { vocabularySize } from './peers/subjects.ts';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const { values } = parseArgs({
  options: { only: { type: 'string', default: '' }, repetitions: { type: 'string', default: '3' } },
});
const repetitions = Number(values.repetitions);
const THREADS = 2;
const CELLS = 16_384;
const MODEL = 'qwen2.5-0.5b';
interface Subject {
  readonly projector?: string;
  readonly adapters?: readonly string[];
  readonly scenarios: readonly Scenario[];
}
const SUBJECTS: readonly Subject[] = [
  { projector: 'clip-base', scenarios: [onePicture, picturesBeside, eightChoices] },
  { projector: 'whisper-small', scenarios: [oneSound] },
  { adapters: ['lora-1', 'lora-2', 'lora-3', 'lora-4'], scenarios: [manyAdapters] },
];

const isWanted = (name: string): boolean => name.includes(values.only);
const running = new Set<Server>();
const commands = new Set<string>();
const results: Result[] = [];
const startedAt = new Date();
await measure();
const texts = isWanted('texts') ? await compareTexts() : [];
const scores = isWanted('scores') ? await compareScores() : [];
const text = report(texts, scores);
if (process.argv.length === 2) await writeSection(text);
console.log(text);
if (!texts.every(areEqual) || !scores.every(({ isAgreeing }) => isAgreeing)) process.exitCode = 1;

async function measure(): Promise<void> {
  const all = SUBJECTS.flatMap(({ scenarios }) => scenarios).filter(({ name }) => isWanted(name));
  if (all.length === 0) return;
  await buildLlamaServer(root);
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => {
      void Promise.all([...running].map((server) => server.stop())).finally(() => process.kill(process.pid, signal));
    });
  }
  const progress = new Progress(
    all.flatMap((scenario) => Array<number>(turnsOf(scenario, repetitions)).fill(scenario.seconds)),
  );
  const model = join(root, 'build', 'models', `${MODEL}.gguf`);
  for (const { projector, adapters = [], scenarios: own } of SUBJECTS) {
    const scenarios = own.filter((scenario) => all.includes(scenario));
    if (scenarios.length === 0) continue;
    for (const name of [MODEL, ...(projector === undefined ? [] : [projector]), ...adapters]) await make(name);
    const options = {
      root,
      model,
      ...(projector === undefined ? {} : { projector: made('projectors', projector) }),
      adapters: adapters.map((name) => made('adapters', name)),
      threads: THREADS,
      contextLength: CELLS,
      vocabulary: await vocabularySize(model),
    };
    const onResult = (result: Result): Promise<void> => Promise.resolve(void results.push(result));
    await compare({ scenarios, repetitions, options, progress, running, commands, onResult });
  }
}

function made(kind: string, name: string): string {
  return join(root, 'build', 'models', kind, `${name}.gguf`);
}

/** Makes a model, projector or adapter unless it exists. */
async function make(name: string): Promise<void> {
  const maker = join(root, 'test', 'make-model', 'make-model.ts');
  const child = spawn(process.execPath, ['--import', 'tsx', maker, name], { stdio: ['ignore', 'inherit', 'inherit'] });
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code !== 0) throw new Error(`test/make-model/make-model.ts ${name} failed`);
}

function report(texts: readonly Texts[], scores: readonly Scores[]): string {
  const minutes = ((Date.now() - startedAt.getTime()) / 60_000).toFixed(0);
  return [
    '## Pictures, sounds, choices, adapters and scores',
    '',
    '`npm run bench:media` takes what `npm run bench:peers` takes: the same programs on the same files, in turns, over HTTP; medians',
    `of ${String(repetitions)} repetitions, with the minimum and maximum in brackets. The encoders have the shapes of ViT-B/16 for 384 × 384 pixels and of`,
    'Whisper small, with random weights in F16. Both programs compute them with libmtmd. The adapters correct four matrices of each layer with rank',
    '16, in F16. A step computes with one set of adapters, so that streams with four sets take turns.',
    '',
    `Machine: ${machine()}. ${startedAt.toISOString().slice(0, 10)}, ${minutes} minutes.`,
    '',
    ...[...commands].map((command) => `    ${command}`),
    '',
    ...tables(results),
    ...textLines(texts),
    ...scoreLines(scores),
  ].join('\n');
}

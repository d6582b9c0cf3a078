/**
 * Compares the text of our engine with that of llama-server built from the same source: greedy and seeded, raw
 * prompts and chats, on models of three architectures and one that ends its turns.
 *
 *   node --import tsx bench/compare-llama-server.ts [--native] [--together] [--tokens 64] [--threads 1] [MODEL …]
 *
 * --native    run the server with the libraries that it was built with, for this CPU
 * --together  compute our answers concurrently in shared batches; the server's one by one
 *
 * Exits with 1 if an answer differs. With --native a few answers differ, with --together most. Other kernels and
 * other batch sizes round differently (attention sums in half precision, and single-row matrix products take another
 * code path), and after one different token the rest differs too. llama-server's own answers change in the same way
 * under parallel requests.
 */
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { loadAddon } from '../src/engine/loader.ts';
import { QUESTIONS, SAMPLINGS, type Answer, type Question, type Sampling } from './compare/cases.ts';
import { buildLlamaServer, LlamaServer } from './compare/llama-server.ts';
import { OurEngine } from './compare/our-engine.ts';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const CONTEXT_LENGTH = 4096;

interface Case {
  readonly question: Question;
  readonly samplingName: string;
  readonly sampling: Sampling;
}

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    native: { type: 'boolean' },
    together: { type: 'boolean' },
    tokens: { type: 'string', default: '64' },
    threads: { type: 'string', default: '1' },
  },
});
const maxTokens = Number(values.tokens);
/** The same for both: attention sums may be split over threads, so the number of threads affects rounding. */
const threads = Number(values.threads);
const models =
  positionals.length > 0
    ? positionals
    : [
        'models/nano/nano.gguf',
        ...['tiny-llama', 'tiny-qwen2', 'tiny-gemma'].map((name) => `build/models/${name}.gguf`),
      ].map((path) => join(root, path));
const cases: Case[] = Object.entries(SAMPLINGS).flatMap(([samplingName, sampling]) =>
  QUESTIONS.map((question) => ({ question, samplingName, sampling })),
);

const { addon, directory } = loadAddon();
addon.loadBackends(directory);
const program = await buildLlamaServer(root);

let different = 0;
for (const model of models) different += await compare(model);
console.log(`\n${models.length * cases.length - different} answers equal, ${different} different`);
if (different > 0) process.exitCode = 1;

async function compare(model: string): Promise<number> {
  const libraries = values.native === true ? null : directory;
  const expected: Answer[] = [];
  const server = await LlamaServer.start(program, {
    model,
    threads,
    contextLength: CONTEXT_LENGTH,
    libraries,
  });
  try {
    for (const { question, sampling } of cases) expected.push(await server.ask(question, sampling, maxTokens));
  } finally {
    await server.stop();
  }
  const answers = await askOurs(model);
  report(basename(model), expected, answers);
  return answers.filter((answer, index) => !isSame(answer, expected[index]!)).length;
}

async function askOurs(model: string): Promise<Answer[]> {
  const engine = await OurEngine.load(addon, model, { threads, context_length: CONTEXT_LENGTH });
  const ask = ({ question, sampling }: Case): Promise<Answer> => engine.ask(question, sampling, maxTokens);
  try {
    if (values.together === true) return await Promise.all(cases.map(ask));
    const answers: Answer[] = [];
    for (const each of cases) answers.push(await ask(each));
    return answers;
  } finally {
    await engine.close();
  }
}

function report(model: string, expected: readonly Answer[], answers: readonly Answer[]): void {
  console.log(`\n${model}`);
  for (const name of Object.keys(SAMPLINGS)) {
    const row = cases.flatMap((each, index) => (each.samplingName === name ? [index] : []));
    const equal = row.filter((index) => isSame(answers[index]!, expected[index]!));
    const tokens = row.reduce((sum, index) => sum + expected[index]!.outputTokens, 0);
    console.log(`  ${name.padEnd(18)} ${equal.length} of ${row.length} equal, ${tokens} tokens`);
    for (const index of row.filter((each) => !equal.includes(each)))
      explain(cases[index]!, expected[index]!, answers[index]!);
  }
}

function explain({ question }: Case, expected: Answer, answer: Answer): void {
  const at = [...expected.text].findIndex((character, index) => character !== [...answer.text][index]);
  console.log(`    ${JSON.stringify(question).slice(0, 100)}`);
  console.log(`      llama-server ${describe(expected, at)}`);
  console.log(`      ours         ${describe(answer, at)}`);
}

function describe({ text, finish, inputTokens, outputTokens }: Answer, at: number): string {
  const part = at < 0 ? text.slice(-40) : [...text].slice(Math.max(0, at - 10), at + 30).join('');
  return `${inputTokens} in, ${outputTokens} out, ${finish}, differs at ${at}: ${JSON.stringify(part)}`;
}

function isSame(a: Answer, b: Answer): boolean {
  return (
    a.text === b.text && a.finish === b.finish && a.inputTokens === b.inputTokens && a.outputTokens === b.outputTokens
  );
}

/**
 * Compares scores of our engine with those of llama-server built from the same source, and the time of both for many
 * documents.
 *
 *   node --import tsx bench/compare-rerank.ts [--threads 1] [MODEL.gguf …]
 *
 * Exits with 1 if a score differs by more than a hundredth, the order by more than that can explain, or the tokens.
 */
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { loadAddon } from '../src/engine/loader.ts';
import { ranked } from '../src/protocol/rerank/rerank.ts';
import { buildLlamaServer, LlamaServer } from './compare/llama-server.ts';
import { OurEngine } from './compare/our-engine.ts';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
/** Relative to 1 + |score|: the batch shape changes the rounding. */
const MOST_DIFFERENCE = 0.01;
const QUERY = 'What runs under the old bridge?';
const DOCUMENTS = [
  'x',
  'The river runs under the old bridge.',
  'The bridge runs under the old river.',
  'def fibonacci(n: int) -> int:\n    """The n-th number."""\n    return',
  'Grüße aus Köln! 你好，世界。 Привет 👩‍👩‍👧‍👦 ',
  Array.from({ length: 40 }, (_, index) => `Line ${index}: the fox.`).join('\n'),
];
const MANY = Array.from({ length: 256 }, (_, index) => `The river ${index} runs under the old bridge, and boats wait.`);

interface Ranker {
  rerank(query: string, documents: readonly string[]): Promise<{ scores: number[]; tokens: number }>;
}

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { threads: { type: 'string', default: '1' } },
});
const threads = Number(values.threads);
const models =
  positionals.length > 0
    ? positionals
    : ['tiny-rank', 'tiny-rank-qwen3'].map((name) => join(root, 'build', 'models', `${name}.gguf`));

const { addon, directory } = loadAddon();
addon.loadBackends(directory);
const program = await buildLlamaServer(root);
for (const model of models) await compare(model);

async function compare(model: string): Promise<void> {
  const engine = await OurEngine.load(addon, model, { threads });
  const contextLength = engine.info.context_length;
  const server = await LlamaServer.start(program, {
    model,
    threads,
    contextLength,
    libraries: directory,
    reranking: true,
  });
  try {
    const [ours, theirs] = [await engine.rerank(QUERY, DOCUMENTS), await server.rerank(QUERY, DOCUMENTS)];
    const most = Math.max(...ours.scores.map((score, at) => difference(score, theirs.scores[at] ?? NaN)));
    const [order, expected] = [orderOf(ours.scores), orderOf(theirs.scores)];
    const [oursMs, theirsMs] = [await time(engine), await time(server)];
    console.log(
      `${basename(model)}: largest relative difference of ${DOCUMENTS.length} scores ${most.toExponential(1)}, ` +
        `order ${order.join(' ')} and ${expected.join(' ')}, tokens ${ours.tokens} and ${theirs.tokens}; ` +
        `${MANY.length} short documents in ${oursMs.toFixed(0)} ms, llama-server ${theirsMs.toFixed(0)} ms`,
    );
    const isOrdered = order.every((at, index) => {
      const other = expected[index] ?? NaN;
      return at === other || difference(theirs.scores[at] ?? NaN, theirs.scores[other] ?? NaN) < MOST_DIFFERENCE;
    });
    if (!(most < MOST_DIFFERENCE) || !isOrdered || ours.tokens !== theirs.tokens) process.exitCode = 1;
  } finally {
    await server.stop();
    await engine.close();
  }
}

function difference(a: number, b: number): number {
  return Math.abs(a - b) / (1 + Math.abs(b));
}

function orderOf(scores: readonly number[]): number[] {
  return ranked(scores).map(({ index }) => index);
}

/** Time of the second run, after warm-up. */
async function time(ranker: Ranker): Promise<number> {
  await ranker.rerank(QUERY, MANY);
  const from = performance.now();
  await ranker.rerank(QUERY, MANY);
  return performance.now() - from;
}

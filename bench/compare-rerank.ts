/**
 * Compares scores of our engine with those of llama-server built from the same source, and the time of both for many
 * documents.
 *
 *   node --import tsx bench/compare-rerank.ts [--threads 1] [MODEL.gguf …]
 *
 * Exits with 1 if a score differs by more than a hundredth, the order by more than that can explain, or the tokens.
 */
import { basename } from 'node:path';
import { ranked } from '../src/protocol/rerank/rerank.ts';
import { besideServer, MANY, timeOf, type Both } from './compare/beside-server.ts';

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

await besideServer(['tiny-rank', 'tiny-rank-qwen3'], { reranking: true }, compare);

async function compare({ model, engine, server }: Both): Promise<void> {
  const [ours, theirs] = [await engine.rerank(QUERY, DOCUMENTS), await server.rerank(QUERY, DOCUMENTS)];
  const most = Math.max(...ours.scores.map((score, at) => difference(score, theirs.scores[at] ?? NaN)));
  const [order, expected] = [orderOf(ours.scores), orderOf(theirs.scores)];
  const oursMs = await timeOf(() => engine.rerank(QUERY, MANY));
  const theirsMs = await timeOf(() => server.rerank(QUERY, MANY));
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
}

function difference(a: number, b: number): number {
  return Math.abs(a - b) / (1 + Math.abs(b));
}

function orderOf(scores: readonly number[]): number[] {
  return ranked(scores).map(({ index }) => index);
}

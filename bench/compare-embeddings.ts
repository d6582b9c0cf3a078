/**
 * Compares embeddings of our engine with those of llama-server built from the same source, and the time of both for
 * many short texts.
 *
 *   node --import tsx bench/compare-embeddings.ts [--threads 1] [MODEL.gguf …]
 *
 * Exits with 1 if the cosine of two vectors of the same text is below 0.999, or the tokens differ.
 */
import { basename } from 'node:path';
import { besideServer, MANY, timeOf, type Both } from './compare/beside-server.ts';

const LEAST_COSINE = 0.999;
const TEXTS = [
  'x',
  'Hello, how are you?',
  'The river runs under the old bridge.',
  'The bridge runs under the old river.',
  'def fibonacci(n: int) -> int:\n    """The n-th number."""\n    return',
  'Grüße aus Köln! 你好，世界。 Привет 👩‍👩‍👧‍👦 ',
  Array.from({ length: 60 }, (_, index) => `Line ${index}: the fox.`).join('\n'),
];

await besideServer(['tiny-bert', 'tiny-llama-embed'], { embeddings: true }, compare);

async function compare({ model, engine, server }: Both): Promise<void> {
  const [ours, theirs] = [await engine.embed(TEXTS), await server.embed(TEXTS)];
  const cosines = ours.vectors.map((vector, index) => cosine(vector, theirs.vectors[index]!));
  const least = Math.min(...cosines);
  const others = Math.max(...ours.vectors.slice(1).map((vector, index) => cosine(vector, theirs.vectors[index]!)));
  const oursMs = await timeOf(() => engine.embed(MANY));
  const theirsMs = await timeOf(() => server.embed(MANY));
  console.log(
    `${basename(model)}: least cosine of ${TEXTS.length} texts ${least.toFixed(6)} (neighbours at most ${others.toFixed(3)}), ` +
      `tokens ${ours.tokens} and ${theirs.tokens}; ${MANY.length} short texts in ${oursMs.toFixed(0)} ms, llama-server ${theirsMs.toFixed(0)} ms`,
  );
  if (least < LEAST_COSINE || ours.tokens !== theirs.tokens) process.exitCode = 1;
}

function cosine(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let product = 0;
  let [aSquare, bSquare] = [0, 0];
  for (let index = 0; index < a.length; index += 1) {
    product += a[index]! * b[index]!;
    aSquare += a[index]! ** 2;
    bSquare += b[index]! ** 2;
  }
  return product / Math.sqrt(aSquare * bSquare);
}

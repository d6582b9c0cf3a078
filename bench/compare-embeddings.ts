/**
 * Compares embeddings of our engine with those of llama-server built from the same source, and the time of both for
 * many short texts.
 *
 *   node --import tsx bench/compare-embeddings.ts [--threads 1] [MODEL.gguf …]
 *
 * Exits with 1 if the cosine of two vectors of the same text is below 0.999, or the tokens differ.
 */
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { loadAddon } from '../src/engine/loader.ts';
import { buildLlamaServer, LlamaServer } from './compare/llama-server.ts';
import { OurEngine } from './compare/our-engine.ts';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
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
const MANY = Array.from({ length: 256 }, (_, index) => `The river ${index} runs under the old bridge, and boats wait.`);

interface Embedder {
  embed(inputs: readonly string[]): Promise<{ vectors: ArrayLike<number>[]; tokens: number }>;
}

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { threads: { type: 'string', default: '1' } },
});
const threads = Number(values.threads);
const models =
  positionals.length > 0
    ? positionals
    : ['tiny-bert', 'tiny-llama-embed'].map((name) => join(root, 'build', 'models', `${name}.gguf`));

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
    embeddings: true,
  });
  try {
    const [ours, theirs] = [await engine.embed(TEXTS), await server.embed(TEXTS)];
    const cosines = ours.vectors.map((vector, index) => cosine(vector, theirs.vectors[index]!));
    const least = Math.min(...cosines);
    const others = Math.max(...ours.vectors.slice(1).map((vector, index) => cosine(vector, theirs.vectors[index]!)));
    const [oursMs, theirsMs] = [await time(engine), await time(server)];
    console.log(
      `${basename(model)}: least cosine of ${TEXTS.length} texts ${least.toFixed(6)} (neighbours at most ${others.toFixed(3)}), ` +
        `tokens ${ours.tokens} and ${theirs.tokens}; ${MANY.length} short texts in ${oursMs.toFixed(0)} ms, llama-server ${theirsMs.toFixed(0)} ms`,
    );
    if (least < LEAST_COSINE || ours.tokens !== theirs.tokens) process.exitCode = 1;
  } finally {
    await server.stop();
    await engine.close();
  }
}

/** Time of the second run, after warm-up. */
async function time(embedder: Embedder): Promise<number> {
  await embedder.embed(MANY);
  const from = performance.now();
  await embedder.embed(MANY);
  return performance.now() - from;
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

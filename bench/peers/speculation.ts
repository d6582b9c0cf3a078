/**
 * Measures the engine with and without speculative decoding, in this process:
 *
 *   node --import tsx bench/peers/speculation.ts MODEL THREADS
 *
 * Prints `[a, b, c]`: speed with speculation divided by speed without, for text that does not repeat, that repeats, and
 * that repeats in part. Requests with `reuse_prefix` off are computed without speculation. Greedy text of the synthetic
 * models never repeats. A bias towards one token makes the text repeat; with two tokens their order is random, and some
 * of the text repeats.
 */
import type { EngineRequest, NativeOutput } from '../../src/engine/addon.ts';
import { loadAddon } from '../../src/engine/loader.ts';
import { words } from './words.ts';

const TOKENS = 96;
type Bias = NonNullable<NonNullable<EngineRequest['sampling']>['logit_bias']>;
const ONE_TOKEN: Bias = [[1000, 100]];
const TWO_TOKENS: Bias = [...ONE_TOKEN, [1037, 100]];

const [model = '', threads = '2'] = process.argv.slice(2);
const { addon, directory } = loadAddon();
addon.loadBackends(directory);
const takers = new Map<number, (output: NativeOutput) => void>();
const onStep = (outputs: NativeOutput[]): void => {
  for (const output of outputs) takers.get(output.id)?.(output);
};
const options = { threads: Number(threads), context_length: 2048 };
const engine = await addon.load(model, options, () => undefined, onStep);
let lastId = 0;
try {
  await speed(words(12), true, []);
  const gains: number[] = [];
  for (const logitBias of [[], ONE_TOKEN, TWO_TOKENS]) {
    const prompt = words(12);
    const without = await speed(prompt, false, logitBias);
    gains.push((await speed(prompt, true, logitBias)) / without);
  }
  console.log(JSON.stringify(gains));
} finally {
  await engine.close();
}

/** Returns tokens per millisecond after the first token. */
async function speed(content: string, reuse_prefix: boolean, logit_bias: Bias): Promise<number> {
  const id = (lastId += 1);
  const finished = new Promise<NonNullable<NativeOutput['finish']>>((resolve, reject) => {
    takers.set(id, ({ finish, error }) => {
      if (error !== undefined) reject(new Error(`${error.code}: ${error.message}`));
      if (finish !== undefined) resolve(finish);
    });
  });
  const messages = [{ role: 'user', content }];
  await engine.submit({ id, messages, max_tokens: TOKENS, reuse_prefix, sampling: { temperature: 0, logit_bias } });
  const { usage, timings } = await finished;
  const { first_token_ms, finished_ms } = timings;
  if (usage.output_tokens < 2 || first_token_ms === null) throw new Error('the answer is too short');
  return (usage.output_tokens - 1) / (finished_ms - first_token_ms);
}

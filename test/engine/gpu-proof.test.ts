/** The questions of a GPU's proof: the built-in model is sure of every token of its answers. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { PROOF_QUESTIONS, PROOF_TOKENS } from '../../src/engine/gpu-proof.ts';
import type { NativeOutput } from '../../src/engine/addon.ts';
import { builtinModelPath } from '../../src/models/store/builtin.ts';
import { leastMargin } from '../support/margin.ts';
import { openAddon } from '../support/native-engine.ts';

/** Difference of log probabilities that no rounding of a GPU reaches. */
const LEAST_MARGIN = 3;
/** An answer of fewer tokens would prove little. */
const LEAST_TOKENS = 12;

test('rounding cannot change a token of the answers', async () => {
  const outputs: NativeOutput[] = [];
  let end: () => void = () => undefined;
  const options = { context_length: 512, max_sequences: 1, threads: 2, gpu_layers: 0 };
  const engine = await openAddon().load(
    builtinModelPath(),
    options,
    () => undefined,
    (step) => {
      outputs.push(...step);
      if (step.some(({ finish, error }) => finish !== undefined || error !== undefined)) end();
    },
  );
  for (const [index, content] of PROOF_QUESTIONS.entries()) {
    outputs.length = 0;
    const ended = new Promise<void>((resolve) => (end = resolve));
    await engine.submit({
      id: index + 1,
      messages: [{ role: 'user', content }],
      max_tokens: PROOF_TOKENS,
      sampling: { temperature: 0 },
      logprobs: 2,
    });
    await ended;
    const tokens = outputs.flatMap(({ logprobs = [] }) => logprobs);
    assert.ok(tokens.length >= LEAST_TOKENS, `${content}: ${String(tokens.length)} tokens`);
    const margin = leastMargin(tokens);
    assert.ok(margin >= LEAST_MARGIN, `${content}: ${String(margin)}`);
  }
  await engine.close();
});

test.run();

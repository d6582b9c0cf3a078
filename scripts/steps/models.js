/** The models that builds and tests need; made, not downloaded. */
import { lockedPackage } from './packages.js';
import { run } from './run.js';
import { unlessFresh } from './unless-fresh.js';

const OUTPUTS = {
  builtin: ['models/builtin.gguf'],
  tests: ['build/models/tiny-llama.gguf', 'build/models/tiny-qwen2.gguf', 'build/models/tiny-gemma.gguf'],
};

/** `set`: `builtin` or `tests`. */
export async function makeModels(set) {
  const inputs = ['scripts/make-model.ts', 'scripts/gguf', 'src/models/gguf-header.ts', 'src/models/ggml-types.ts'];
  const facts = [await lockedPackage('node-llama-cpp')];
  await unlessFresh(`models-${set}`, { inputs, facts, outputs: OUTPUTS[set] }, async () => {
    const title = set === 'builtin' ? 'making the built-in model' : 'making the models of the tests';
    await run(title, process.execPath, ['--import', 'tsx', 'scripts/make-model.ts', set]);
  });
}

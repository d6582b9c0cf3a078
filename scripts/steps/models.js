/** Generates the models that tests need; nothing is downloaded. */
import { lockedPackage } from './packages.js';
import { run } from './run.js';
import { unlessFresh } from './unless-fresh.js';

const outputs = [
  'tiny-llama',
  'tiny-qwen2',
  'tiny-qwen2vl',
  'tiny-thinker',
  'tiny-glm',
  'tiny-gemma4',
  'tiny-gemma',
  'tiny-gemma2',
  'tiny-gemma3',
  'tiny-gpt-oss',
  'tiny-qwen35',
  'tiny-mamba',
  'tiny-lfm2',
  'tiny-lfm2-embed',
  'tiny-bert',
  'tiny-llama-embed',
  'tiny-rank',
  'tiny-rank-qwen3',
  'projectors/clip',
  'projectors/qwen2-vl',
  'projectors/siglip',
  'projectors/whisper',
  'adapters/llama-attention',
  'adapters/llama-forward',
  'adapters/qwen2',
  'adapters/gemma3',
  'adapters/qwen35',
].map((name) => `build/models/${name}.gguf`);

export async function makeTestModels() {
  const inputs = ['test/make-model', 'src/models/gguf/gguf-header.ts', 'src/models/gguf/ggml-types.ts'];
  const facts = [await lockedPackage('node-llama-cpp')];
  await unlessFresh('models-tests', { inputs, facts, outputs }, async () => {
    await run('making the models of the tests', process.execPath, [
      '--import',
      'tsx',
      'test/make-model/make-model.ts',
      'tests',
    ]);
  });
}

/**
 * Builds everything that `svc` needs to run from this checkout; leaves alone what is up to date.
 *
 *   npm run build                       libllama prebuilt where there is a package for this platform
 *   SVC_LLAMA=source npm run build      libllama from source, into build/addon-source
 *   npm run build -- --test-models      also the models that tests need
 */
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { buildAddon } from './steps/addon.js';
import { compileSources } from './steps/dist.js';
import { unpackLlamaCpp } from './steps/llama-cpp.js';
import { makeTestModels } from './steps/models.js';
import { installPackages } from './steps/packages.js';
import { main, say } from './steps/run.js';

export async function build({ testModels = false } = {}) {
  await installPackages();
  await all([compileSources(), unpackLlamaCpp().then(() => all([buildAddon(), testModels && makeTestModels()]))]);
}

/** As Promise.all, but waits for all steps before it throws. */
async function all(steps) {
  const results = await Promise.allSettled(steps);
  const failed = results.find(({ status }) => status === 'rejected');
  if (failed !== undefined) throw failed.reason;
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  await main(async () => {
    const { values } = parseArgs({ options: { 'test-models': { type: 'boolean' } } });
    await build({ testModels: values['test-models'] });
    say('built');
  });
}

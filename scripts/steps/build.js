/** Builds everything that `svc` needs to run from this checkout; leaves alone what is up to date. */
import { buildAddon } from './addon.js';
import { compileSources } from './dist.js';
import { unpackLlamaCpp } from './llama-cpp.js';
import { makeTestModels } from './models.js';
import { installPackages } from './packages.js';

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

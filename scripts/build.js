/**
 * Builds everything that `svc` needs to run from this checkout; leaves alone what is up to date.
 *
 *   npm run build                       libllama prebuilt where there is a package for this platform
 *   SVC_LLAMA=source npm run build      libllama from source, into build/addon-source
 *   npm run build -- --test-models      also the models that tests need
 */
import { parseArgs } from 'node:util';
import { build } from './steps/build.js';
import { main, say } from './steps/run.js';

await main(async () => {
  const { values } = parseArgs({ options: { 'test-models': { type: 'boolean' } } });
  await build({ testModels: values['test-models'] });
  say('built');
});

/**
 * Makes the single executable for this platform, build/executable/svc.
 *
 *   npm run executable
 *   npm run executable -- --check      and runs the tests of it, and of the packages made from it
 */
import { stat } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { installPackages } from './steps/packages.js';
import { inRoot } from './steps/root.js';
import { main, run } from './steps/run.js';

await main(async () => {
  const { values } = parseArgs({ options: { check: { type: 'boolean' } } });
  await installPackages();
  const { makeExecutables } = await import('./steps/executable.js');
  const { executable } = await makeExecutables();
  process.stdout.write(`${executable}: ${((await stat(executable)).size / 1e6).toFixed(1)} MB\n`);
  if (values.check) {
    const tests = ['packed/executable', 'packed/deb', 'packed/image'];
    process.stdout.write(await run('testing', process.execPath, [inRoot('scripts/test.js'), ...tests]));
  }
});

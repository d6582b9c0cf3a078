/**
 * Makes the single executable for this platform, and packages of it, in build/executable.
 *
 *   npm run executable
 *   npm run executable -- win32-x64    for another platform, in build/executable-win32-x64
 *   npm run executable -- --deb        also the Debian package
 *   npm run executable -- --image      also the container image, as an OCI layout
 *   npm run executable -- --check      also runs the tests of all of them
 */
import { stat } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { installPackages } from './steps/packages.js';
import { inRoot } from './steps/root.js';
import { main, run } from './steps/run.js';

await main(async () => {
  const options = { deb: { type: 'boolean' }, image: { type: 'boolean' }, check: { type: 'boolean' } };
  const { values, positionals } = parseArgs({ options, allowPositionals: true });
  await installPackages();
  // They import what has just been installed.
  const { makeExecutables } = await import('./steps/executable.js');
  const { makeDeb } = await import('./steps/deb.js');
  const { makeImage } = await import('./steps/image.js');
  const made = [(await makeExecutables(...positionals)).executable];
  if (values.deb) made.push(await makeDeb());
  if (values.image) process.stdout.write(`${await makeImage()}\n`);
  for (const path of made) process.stdout.write(`${path}: ${((await stat(path)).size / 1e6).toFixed(1)} MB\n`);
  if (values.check) {
    const tests = ['packed/executable', 'packed/deb', 'packed/image'];
    process.stdout.write(await run('testing', process.execPath, [inRoot('scripts/test.js'), ...tests]));
  }
});

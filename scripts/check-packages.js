/**
 * Checks the tarballs of a folder (default: build/packages): contents, native symbols, library versions, run paths,
 * licences, sizes.
 *
 *   node scripts/check-packages.js [FOLDER]
 *   node scripts/check-packages.js --all [FOLDER]      fails if the package of a platform is missing, too
 */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { checkTarball, describe } from './steps/check-package.js';
import { packageName, PACKAGES, platforms, RUNTIME, tarballName } from './steps/platforms.js';
import { inRoot } from './steps/root.js';
import { main, StepError } from './steps/run.js';

await main(async () => {
  const { values, positionals } = parseArgs({ options: { all: { type: 'boolean' } }, allowPositionals: true });
  const folder = positionals[0] ?? inRoot(PACKAGES);
  const present = (await readdir(folder)).filter((name) => name.startsWith(`${RUNTIME}-`) && name.endsWith('.tgz'));
  if (present.length === 0) throw new StepError(`no tarballs in ${folder}: run npm run packages`);
  const wanted = [RUNTIME, ...Object.keys(platforms).map(packageName)].map(tarballName);
  const missing = wanted.filter((name) => !present.includes(name));
  if (values.all && missing.length > 0) throw new StepError(`missing: ${missing.join(', ')}`);
  for (const name of present.sort()) {
    process.stdout.write(`${name}: ${describe(await checkTarball(join(folder, name)))}\n`);
  }
});

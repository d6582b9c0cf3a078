/**
 * Makes the published packages: svc-runtime, which is JavaScript, and one of native files for each platform.
 *
 *   npm run packages                              all that this machine can build, into build/packages
 *   npm run packages -- linux-arm64               only that platform's
 *   npm run packages -- linux-x64 svc-runtime     these two
 *   npm run packages -- --out FOLDER              into another folder
 *   npm run packages -- --page                    writes the sizes into docs/platforms.md, too
 *
 * Every tarball is checked (check-packages.js). A platform other than this machine's needs its cross compiler.
 */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { checkTarball, describe } from './steps/check-package.js';
import { installPackages } from './steps/packages.js';
import { writeSizes } from './steps/platforms-page.js';
import { makePlatformPackage, obstacleTo } from './steps/platform-package.js';
import { packageName, PACKAGES, platformNamed, platforms, RUNTIME } from './steps/platforms.js';
import { root } from './steps/root.js';
import { main, say } from './steps/run.js';
import { makeRuntimePackage } from './steps/runtime-package.js';

await main(async () => {
  const { values, positionals } = parseArgs({
    options: { out: { type: 'string' }, page: { type: 'boolean' } },
    allowPositionals: true,
  });
  const out = values.out ?? join(root, PACKAGES);
  await mkdir(out, { recursive: true });
  await installPackages();
  const asked =
    positionals.length === 0
      ? await possible()
      : positionals.map((name) => (name === RUNTIME ? name : platformNamed(name)));
  const tarballs = [];
  for (const each of asked) {
    tarballs.push(each === RUNTIME ? await makeRuntimePackage(out) : await makePlatformPackage(each, out));
  }
  for (const tarball of tarballs) {
    const facts = await checkTarball(tarball);
    process.stdout.write(`${tarball}\n  ${describe(facts)}\n`);
    if (values.page && facts.platform !== undefined) await writeSizes(facts);
  }
});

/** Returns all packages that can be built here, and says why the others cannot. */
async function possible() {
  const found = [];
  for (const platform of Object.keys(platforms)) {
    const obstacle = await obstacleTo(platform);
    if (obstacle === null) found.push(platform);
    else say(`not built: ${packageName(platform)} (${obstacle})`);
  }
  return [...found, RUNTIME];
}

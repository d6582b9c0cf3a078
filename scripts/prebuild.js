/**
 * Fills prebuilds/<platform>-<arch>/ with all native files that ship, stripped: svc.node, the libraries that it needs,
 * every CPU variant, and their notices. `npm pack` then makes the package.
 */
import { execFile } from 'node:child_process';
import { cp, mkdir, readdir, readFile, realpath, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { build } from './build.js';
import { addonFolder } from './steps/addon.js';
import { inRoot } from './steps/root.js';
import { main, say, StepError } from './steps/run.js';
import { isInstalled } from './steps/tools.js';
import { unlessFresh } from './steps/unless-fresh.js';

const NOTICES = 'THIRD_PARTY_NOTICES.md';
const target = `prebuilds/${process.platform}-${process.arch}`;

export async function prebuild() {
  await build();
  await refuseOwnProcessorOnly();
  // The folder also contains the engine's tests.
  const binaries = (await readdir(inRoot(addonFolder, 'bin'))).filter((name) => /\.(node|so|dylib|dll)$/.test(name));
  const inputs = [...binaries.map((name) => `${addonFolder}/bin/${name}`), NOTICES];
  await unlessFresh('prebuild', { inputs, outputs: [`${target}/svc.node`] }, async () => {
    const fresh = inRoot('build', 'prebuild');
    await rm(fresh, { recursive: true, force: true });
    await mkdir(fresh, { recursive: true });
    // The libraries are links into node_modules.
    for (const name of binaries) await cp(await realpath(inRoot(addonFolder, 'bin', name)), join(fresh, name));
    await strip(fresh);
    await cp(inRoot(NOTICES), join(fresh, NOTICES));
    await rm(inRoot(target), { recursive: true, force: true });
    await mkdir(inRoot('prebuilds'), { recursive: true });
    await rename(fresh, inRoot(target));
    say(`${target}: ${((await sizeOf(inRoot(target))) / 1e6).toFixed(1)} MB`);
  });
}

/** Refuses a libllama built for this CPU, because it would crash on CPUs with fewer features. */
async function refuseOwnProcessorOnly() {
  const cache = await readFile(inRoot(addonFolder, 'CMakeCache.txt'), 'utf8');
  if (!/^SVC_LLAMA:\w+=prebuilt$/m.test(cache)) {
    throw new StepError(
      `${addonFolder} holds a libllama built for this CPU only. Build again without SVC_LLAMA=source.`,
    );
  }
}

/** Strips symbols, except those that the dynamic linker needs. */
async function strip(folder) {
  if (process.platform === 'win32') return;
  if (!(await isInstalled('strip'))) throw new StepError('`strip` (binutils) is not installed');
  const files = (await readdir(folder)).map((name) => join(folder, name));
  const flags = process.platform === 'darwin' ? ['-x'] : ['--strip-unneeded'];
  await promisify(execFile)('strip', [...flags, ...files]);
}

async function sizeOf(folder) {
  const sizes = await Promise.all((await readdir(folder)).map(async (name) => (await stat(join(folder, name))).size));
  return sizes.reduce((total, size) => total + size, 0);
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) await main(prebuild);

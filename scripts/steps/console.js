/** Bundles the web console of console/ into dist/console, which the daemon serves. */
import { copyFile, mkdir, rm } from 'node:fs/promises';
import { inRoot, root } from './root.js';
import { lockedPackage, packageOf } from './packages.js';
import { unlessFresh } from './unless-fresh.js';

/** Folder of what the daemon serves. */
export const CONSOLE = 'dist/console';
/** What the bundle is made with, or contains. */
const PACKAGES = ['esbuild', 'preact', '@preact/signals', '@preact/signals-core', 'uplot', 'marked', 'dompurify'];

export async function buildConsole() {
  const outputs = ['index.html', 'icon.svg', 'console.js', 'console.css'].map((name) => `${CONSOLE}/${name}`);
  const facts = await Promise.all(PACKAGES.map(lockedPackage));
  const inputs = ['console', 'src/protocol', 'scripts/steps/console.js'];
  await unlessFresh('console', { inputs, facts, outputs }, async () => {
    await rm(inRoot(CONSOLE), { recursive: true, force: true });
    await mkdir(inRoot(CONSOLE), { recursive: true });
    await bundle({ write: true });
    for (const name of ['index.html', 'icon.svg']) await copyFile(inRoot('console', name), inRoot(CONSOLE, name));
  });
}

/** Returns the names of the packages whose code or style is in the bundle. */
export async function bundledPackages() {
  const { metafile } = await bundle({ write: false });
  const names = Object.values(metafile.outputs)
    .flatMap(({ inputs }) => Object.entries(inputs))
    .filter(([, { bytesInOutput }]) => bytesInOutput > 0)
    .map(([path]) => packageOf(path)?.name)
    .filter((name) => name !== undefined);
  return [...new Set(names)].sort();
}

async function bundle({ write }) {
  // Imported here: the step that installs it runs before this one.
  const { build } = await import('esbuild');
  return await build({
    absWorkingDir: root,
    entryPoints: [
      { in: 'console/src/main.tsx', out: 'console' },
      { in: 'console/styles/console.css', out: 'console' },
    ],
    outdir: CONSOLE,
    bundle: true,
    write,
    metafile: true,
    minify: true,
    format: 'esm',
    target: ['es2022', 'chrome111', 'firefox114', 'safari16.4'],
    // The notices of what the bundle contains are in THIRD_PARTY_NOTICES.md.
    legalComments: 'none',
    logLevel: 'warning',
  });
}

/**
 * Builds dist/: the bundled JavaScript of src/ and of the packages that it uses, their licences, the types of what
 * applications import, the man page, the web console, and the commit that `svc version` shows.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readFile, rename, rm, utimes, writeFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { bundleLibraries, bundlePrograms } from './bundle.js';
import { buildConsole } from './console.js';
import { inRoot, root } from './root.js';
import { lockedDependencies, lockedPackage } from './packages.js';
import { run, say } from './run.js';
import { publishTypes } from './types.js';
import { unlessFresh } from './unless-fresh.js';

/** What is started by its path; all else is loaded by these. */
const PROGRAMS = ['cli/main.ts', 'engine/main.ts'];
/** What applications and the steps of a package import by its path. */
const LIBRARIES = ['client/index.ts', 'service/systemd-unit.ts'];
const MAIN = 'dist/cli/main.cjs';
/** The licences of the packages whose code is in dist/. */
export const LICENCES = 'LICENCES.md';
const TYPES_ENTRY = 'client/index.d.ts';

export async function compileSources() {
  const startedAt = new Date();
  const inputs = [
    ...['src', 'tsconfig.json', 'tsconfig.types.json', 'package.json', 'scripts/make-man.ts', 'docs/cli.md'],
    ...['bundle', 'dist', 'types'].map((name) => `scripts/steps/${name}.js`),
  ];
  const tools = await Promise.all(['typescript', 'esbuild'].map(lockedPackage));
  await unlessFresh(
    'dist',
    {
      inputs,
      facts: [...tools, ...(await lockedDependencies())],
      outputs: [MAIN, `dist/${TYPES_ENTRY}`, 'dist/svc.1'],
    },
    async () => {
      // Into a fresh folder, so that no output of a deleted file remains.
      const [fresh, types] = ['build/dist', 'build/types'];
      for (const folder of [fresh, types]) await rm(inRoot(folder), { recursive: true, force: true });
      say('bundling src/ and its packages');
      const licences = await bundlePrograms(PROGRAMS, inRoot(fresh));
      await bundleLibraries(LIBRARIES, inRoot(fresh));
      await writeFile(inRoot(fresh, LICENCES), `# Licences of the packages in this folder\n\n${licences}`);
      const tsc = ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.types.json', '--outDir', types];
      await run("types of src/client's modules", process.execPath, tsc);
      await publishTypes(inRoot(types), inRoot(fresh), TYPES_ENTRY);
      await rm(inRoot(types), { recursive: true });
      await run('writing the man page', process.execPath, ['--import', 'tsx', 'scripts/make-man.ts', `${fresh}/svc.1`]);
      await rm(inRoot('dist'), { recursive: true, force: true });
      await rename(inRoot(fresh), inRoot('dist'));
    },
  );
  // Tests run dist/ if no source file is newer (test/support/built.ts); one that git wrote again is, unchanged.
  await utimes(inRoot(MAIN), startedAt, startedAt);
  await buildConsole();
  await stampCommit();
}

/** Not an input of the step above: a commit that changes no source compiles nothing. */
async function stampCommit() {
  const stamp = inRoot('dist', 'commit');
  const commit = await currentCommit();
  // Left alone if it is right: another build may be reading it.
  if (commit === '') await rm(stamp, { force: true });
  else if ((await readFile(stamp, 'utf8').catch(() => null)) !== commit) await writeFile(stamp, commit);
}

/** Returns an empty text if there is none. */
async function currentCommit() {
  // In an unpacked archive git would find the repository of a parent folder.
  if (!existsSync(inRoot('.git'))) return '';
  const git = promisify(execFile)('git', ['rev-parse', 'HEAD'], { cwd: root });
  return (await git.catch(() => ({ stdout: '' }))).stdout.trim();
}

/** dist/: the TypeScript of src/ as JavaScript, and the man page that follows from it. */
import { rename, rm } from 'node:fs/promises';
import { inRoot } from './root.js';
import { lockedPackage } from './packages.js';
import { run } from './run.js';
import { unlessFresh } from './unless-fresh.js';

export async function compileSources() {
  const inputs = ['src', 'tsconfig.json', 'tsconfig.build.json', 'scripts/make-man.ts', 'docs/cli.md', 'package.json'];
  await unlessFresh(
    'dist',
    { inputs, facts: [await lockedPackage('typescript')], outputs: ['dist/cli/main.js', 'dist/svc.1'] },
    async () => {
      // Into a fresh folder, so that nothing of a file that is gone stays behind.
      const fresh = 'build/dist';
      await rm(inRoot(fresh), { recursive: true, force: true });
      await run('compiling src/', process.execPath, [
        'node_modules/typescript/bin/tsc',
        '-p',
        'tsconfig.build.json',
        '--outDir',
        fresh,
      ]);
      await run('writing the man page', process.execPath, ['--import', 'tsx', 'scripts/make-man.ts', `${fresh}/svc.1`]);
      await rm(inRoot('dist'), { recursive: true, force: true });
      await rename(inRoot(fresh), inRoot('dist'));
    },
  );
}

/** The single executable has no files beside its code and cannot run a file: two modules know what to do instead. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { read, trackedFiles } from './source-files.ts';

const sources = trackedFiles().filter((path) => path.startsWith('src/') && path.endsWith('.ts'));

function filesWith(pattern: RegExp, ...allowed: readonly string[]): string[] {
  return sources.filter((path) => pattern.test(read(path)) && !allowed.includes(path));
}

test('only process/own-files.ts and own-program.ts compute paths from import.meta', () => {
  const others = /import\.meta(?!\.url\))|(?<!createRequire\()import\.meta\.url/;
  const exceptions = ['src/process/own-files.ts', 'src/process/own-program.ts', 'src/process/native-package.ts'];
  assert.equal(filesWith(others, ...exceptions), []);
  assert.match(read('src/process/native-package.ts'), 'from: import.meta.url');
});

test('only process/own-program.ts starts this program again', () => {
  const exceptions = [
    'src/process/own-program.ts',
    'src/executable/unpack.ts',
    'src/engine/sandbox-trial.ts',
    // Finds npm's config beside Node.
    'src/gpu/npm-config.ts',
  ];
  assert.equal(filesWith(/process\.(execPath|argv0|argv\[[01]\])/, ...exceptions), []);
});

test('no module awaits at its top level: the executable is CommonJS', () => {
  assert.equal(filesWith(/^(?:const .*= |export const .*= )?await /m), []);
});

test.run();

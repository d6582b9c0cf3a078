/** Where the native files of an installation are looked for, and what is said if they are missing. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { placeOfPackage, PLATFORMS, type MissingPackage } from '../../src/process/native-package.ts';

let modules = '';
let home = '';

test.before.each(() => {
  modules = join(mkdtempSync(join(tmpdir(), 'svc-installed-')), 'node_modules');
  home = install('svc-runtime', '1.2.3');
});
test.after.each(() => {
  rmSync(join(modules, '..'), { recursive: true });
});

function install(name: string, version: string): string {
  const folder = join(modules, name);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ name, version }));
  return folder;
}

const placeFor = (platform: string) => placeOfPackage({ platform, home, from: join(home, 'dist', 'main.js') });

test('the platforms are those of npm/platforms.json', () => {
  const file = readFileSync(new URL('../../npm/platforms.json', import.meta.url), 'utf8');
  assert.equal([...PLATFORMS].sort(), Object.keys(JSON.parse(file) as object).sort());
});

test('the package is found beside svc-runtime', () => {
  const beside = install('svc-runtime-linux-x64', '1.2.3');
  assert.equal(placeFor('linux-x64'), { folder: join(beside, 'bin'), model: join(beside, 'nano.gguf') });
});

test('the package is found below svc-runtime', () => {
  const below = install('svc-runtime/node_modules/svc-runtime-linux-x64', '1.2.3');
  assert.equal(placeFor('linux-x64'), { folder: join(below, 'bin'), model: join(below, 'nano.gguf') });
});

test('a missing package is named, with the command that installs it', () => {
  assert.equal(placeFor('darwin-arm64'), {
    message: 'the package svc-runtime-darwin-arm64, with the engine and the built-in model, is not installed',
    hint: 'run: npm install --global --include=optional svc-runtime@1.2.3',
  });
  writeFileSync(join(modules, '..', 'package.json'), '{}');
  assert.is(
    (placeFor('darwin-arm64') as MissingPackage).hint,
    'run: npm install --include=optional svc-runtime@1.2.3',
    'in a project',
  );
});

test('an installation that was copied from another platform says so', () => {
  install('svc-runtime-win32-x64', '1.2.3');
  assert.match(
    (placeFor('darwin-arm64') as MissingPackage).message,
    /is not installed; this installation is for win32-x64$/,
  );
});

test('a package of another version is refused', () => {
  install('svc-runtime-linux-x64', '1.2.2');
  assert.is(
    (placeFor('linux-x64') as MissingPackage).message,
    'svc-runtime-linux-x64 has version 1.2.2, svc-runtime has 1.2.3',
  );
});

test('a platform without a package gets the list of those that have one', () => {
  assert.equal(placeFor('sunos-x64'), {
    message:
      'svc-runtime has no package for sunos-x64, only for linux-x64, linux-arm64, win32-x64, darwin-arm64 (Linux with glibc)',
    hint: 'run svc on one of these platforms, or build it from source: `npm run build` in a checkout',
  });
});

test.run();

/** Contents of the package, its version and its notices. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { VERSION } from '../../src/config/version.ts';
import { addonPath } from '../../src/engine/loader.ts';
import { probeEngine } from '../../src/engine/probe.ts';
import { read, root, trackedFiles } from './source-files.ts';

interface Package {
  readonly version: string;
  readonly files: readonly string[];
  readonly dependencies: Record<string, string>;
  readonly devDependencies: Record<string, string>;
}
const manifest = JSON.parse(read('package.json')) as Package;

test('package, lock file, changelog and code have the same version', () => {
  const lock = JSON.parse(read('package-lock.json')) as { packages: Record<string, { version?: string } | undefined> };
  assert.is(lock.packages['']?.version, manifest.version);
  assert.is(/^## (\d+\.\d+\.\d+)/m.exec(read('CHANGELOG.md'))?.[1], manifest.version);
  assert.is(VERSION, manifest.version);
});

test('dependencies are exact versions', () => {
  const clients = JSON.parse(read('test/clients/package.json')) as { dependencies: Record<string, string> };
  const ranges = Object.entries({
    ...manifest.dependencies,
    ...manifest.devDependencies,
    ...clients.dependencies,
  }).filter(([, range]) => !/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(range));
  assert.equal(ranges, []);
});

test('the package contains what is needed to run, and nothing else from the tree', () => {
  assert.equal([...manifest.files].sort(), [
    'CHANGELOG.md',
    'THIRD_PARTY_NOTICES.md',
    'bin',
    'dist',
    'models/catalogue.json',
    'proto',
    'providers',
  ]);
  assert.ok(existsSync(join(root, 'LICENSE')));
});

test('the notices contain the licence texts of everything that ships', () => {
  const words = (text: string) => text.replace(/\s+/g, ' ').trim();
  const notices = words(read('THIRD_PARTY_NOTICES.md'));
  const licences = [
    'build/llama.cpp/LICENSE',
    'build/llama.cpp/licenses/LICENSE-jsonhpp',
    'build/llama.cpp/vendor/cpp-httplib/LICENSE',
    'node_modules/node-addon-api/LICENSE.md',
    'node_modules/@node-llama-cpp/linux-arm64/LICENSE',
  ];
  const missing = licences.filter((path) => existsSync(join(root, path)) && !notices.includes(words(read(path))));
  assert.equal(missing, []);
});

test('no file contains a path of one machine or a registry host', () => {
  const texts = trackedFiles().filter((path) =>
    /\.(ts|js|json|md|cc|h|txt|cmake|proto|ya?ml)$|^\.ci\/|^\.\w+rc$/.test(path),
  );
  const wrong = texts.filter((path) => {
    if (path === 'test/architecture/release.test.ts') return false;
    return /(?<![\w.])\/(work|root|Users|home\/\w+)\/|registry\.npmjs\.org|"resolved": "http/.test(read(path));
  });
  assert.equal(wrong, []);
});

test('the addon, if one is built, has the version of the package', async () => {
  if (!existsSync(addonPath())) return;
  const { addon } = await probeEngine({ measure: false });
  assert.is(addon?.version, manifest.version);
});

test.run();

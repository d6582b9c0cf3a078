/**
 * Imports go only in the allowed directions. The table `src` in layers.json lists for each folder (or file) of src/
 * what it may import besides itself. Type-only imports count too: they are dependencies as well.
 */
import { dirname } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { cyclesOf, deepestOf, importsOf, read, trackedFiles } from './source-files.ts';

const { src: LAYERS } = JSON.parse(read('test/architecture/layers.json')) as { src: Record<string, string[]> };
const FOLDERS = Object.keys(LAYERS).filter((place) => !place.endsWith('.ts'));
const sources = trackedFiles().filter((path) => path.startsWith('src/') && path.endsWith('.ts'));

/** Returns the most specific row of the table that contains the file. */
function layerOf(path: string): string | undefined {
  return path.startsWith('src/') ? deepestOf(FOLDERS, path.slice('src/'.length)) : undefined;
}

/** True if the row of the file, or of a folder that contains it, allows the import. */
function mayImport(from: string, target: string): boolean {
  const layer = layerOf(from);
  const targetLayer = layerOf(target);
  if (layer === undefined || targetLayer === undefined) return false;
  const allowed = [layer, ...(LAYERS[layer] ?? []), ...(LAYERS[from.slice('src/'.length)] ?? [])];
  return allowed.some((entry) => entry === targetLayer || `src/${entry}` === target);
}

test('every source file belongs to a layer', () => {
  assert.equal(
    sources.filter((path) => layerOf(path) === undefined),
    [],
  );
  assert.ok(sources.length > 0);
});

test('imports go only in the allowed directions', () => {
  const wrong = sources.flatMap((path) =>
    importsOf(path)
      .filter(({ target }) => target.startsWith('src/') && !mayImport(path, target))
      .map(({ target, line }) => `${path}:${String(line)} imports ${target}`),
  );
  assert.equal(wrong, []);
});

test('no file imports itself through others, type-only imports included', () => {
  const edges = new Map(sources.map((path) => [path, importsOf(path).map(({ target }) => target)]));
  assert.equal(cyclesOf(edges), []);
});

test('no folder holds more than 24 files directly', () => {
  const counts = new Map<string, number>();
  for (const path of sources) counts.set(dirname(path), (counts.get(dirname(path)) ?? 0) + 1);
  assert.equal(
    [...counts].filter(([, count]) => count > 24),
    [],
  );
});

test('the rule rejects imports that are not allowed', () => {
  assert.is(mayImport('src/protocol/errors.ts', 'src/config/config.ts'), false);
  assert.is(mayImport('src/routing/router.ts', 'src/backends/local/local-backend.ts'), false);
  assert.is(mayImport('src/daemon/health.ts', 'src/backends/local/local-backend.ts'), false);
  assert.is(mayImport('src/daemon/main.ts', 'src/backends/local/local-backend.ts'), true);
  assert.is(mayImport('src/cli/commands/run.ts', 'src/daemon/main.ts'), false);
});

test('the console takes from src/ only what is in protocol/, and nothing from Node', () => {
  const files = trackedFiles().filter((path) => /^console\/src\/.*\.tsx?$/.test(path));
  assert.ok(files.length > 20);
  const wrong = files.flatMap((path) =>
    importsOf(path)
      .filter(({ target }) => /^node:/.test(target) || (/^src\//.test(target) && !/^src\/protocol\//.test(target)))
      .map(({ target, line }) => `${path}:${String(line)} imports ${target}`),
  );
  assert.equal(wrong, []);
});

/** `name` of `name/file`, `@scope/name` of `@scope/name/file`. */
function packageOf(target: string): string {
  return /^(@[^/]+\/)?[^/]+/.exec(target)?.[0] ?? target;
}

test('src/ imports nothing outside itself except Node and the declared dependencies', () => {
  const { dependencies } = JSON.parse(read('package.json')) as { dependencies: Record<string, string> };
  const wrong = sources.flatMap((path) =>
    importsOf(path)
      .filter(
        ({ target }) =>
          !target.startsWith('src/') && !target.startsWith('node:') && !Object.hasOwn(dependencies, packageOf(target)),
      )
      .map(({ target, line }) => `${path}:${String(line)} imports ${target}`),
  );
  assert.equal(wrong, []);
});

test('packages are imported by import() nowhere but in net/undici.ts, which knows what the bundler makes of it', () => {
  const lazy = sources.filter((path) => /\bimport\('(?!\.|node:)/.test(read(path)));
  assert.equal(lazy, ['src/net/undici.ts']);
});

test('only cli/commands/serve.ts imports the daemon, and only by import() when it runs', () => {
  const source = read('src/cli/commands/serve.ts');
  assert.match(source, /await import\('\.\.\/\.\.\/daemon\/main\.ts'\)/);
  assert.not.match(source, /^import(?! type).*\.\.\/daemon\//m);
});

test('there are no default exports', () => {
  assert.equal(
    sources.filter((path) => /^export default\b|export \{[^}]*\bas default\b/m.test(read(path))),
    [],
  );
});

test.run();

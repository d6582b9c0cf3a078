/**
 * Imports point one way. The table `src` in layers.json says for each folder (or file) of src/ what it may
 * import besides itself. A type-only import counts like any other: the question is what a file knows.
 */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { importsOf, read, trackedFiles } from './source-files.ts';

const { src: LAYERS } = JSON.parse(read('test/architecture/layers.json')) as { src: Record<string, string[]> };
const FOLDERS = Object.keys(LAYERS).filter((place) => !place.endsWith('.ts'));
const sources = trackedFiles().filter((path) => path.startsWith('src/') && path.endsWith('.ts'));

/** The longest row of the table that a file lies under. */
function layerOf(path: string): string | undefined {
  return FOLDERS.filter((folder) => path.startsWith(`src/${folder}/`)).sort((a, b) => b.length - a.length)[0];
}

/** A row for a file adds to the row of its folder. */
function mayImport(from: string, target: string): boolean {
  const layer = layerOf(from);
  const targetLayer = layerOf(target);
  if (layer === undefined || targetLayer === undefined) return false;
  const allowed = [layer, ...(LAYERS[layer] ?? []), ...(LAYERS[from.slice('src/'.length)] ?? [])];
  return allowed.some((entry) => entry === targetLayer || `src/${entry}` === target);
}

test('every source file lies in a layer', () => {
  assert.equal(
    sources.filter((path) => layerOf(path) === undefined),
    [],
  );
  assert.ok(sources.length > 0);
});

test('imports point one way', () => {
  const wrong = sources.flatMap((path) =>
    importsOf(path)
      .filter(({ target }) => target.startsWith('src/') && !mayImport(path, target))
      .map(({ target, line }) => `${path}:${String(line)} imports ${target}`),
  );
  assert.equal(wrong, []);
});

test('the rule itself can say no', () => {
  assert.is(mayImport('src/protocol/errors.ts', 'src/config/config.ts'), false);
  assert.is(mayImport('src/routing/router.ts', 'src/backends/local/local-backend.ts'), false);
  assert.is(mayImport('src/daemon/health.ts', 'src/backends/local/local-backend.ts'), false);
  assert.is(mayImport('src/daemon/main.ts', 'src/backends/local/local-backend.ts'), true);
  assert.is(mayImport('src/cli/run.ts', 'src/daemon/main.ts'), false);
});

test('nothing leaves src/ but for the packages that are declared to run', () => {
  const { dependencies } = JSON.parse(read('package.json')) as { dependencies: Record<string, string> };
  const wrong = sources.flatMap((path) =>
    importsOf(path)
      .filter(
        ({ target }) =>
          !target.startsWith('src/') && !target.startsWith('node:') && !Object.hasOwn(dependencies, target),
      )
      .map(({ target, line }) => `${path}:${String(line)} imports ${target}`),
  );
  assert.equal(wrong, []);
});

test('only cli/serve.ts opens the door to the daemon, and only when it is called', () => {
  const source = read('src/cli/serve.ts');
  assert.match(source, /await import\('\.\.\/daemon\/main\.ts'\)/);
  assert.not.match(source, /^import(?! type).*\.\.\/daemon\//m);
});

test('no default exports', () => {
  assert.equal(
    sources.filter((path) => /^export default\b|export \{[^}]*\bas default\b/m.test(read(path))),
    [],
  );
});

test.run();

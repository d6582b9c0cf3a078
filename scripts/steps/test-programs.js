/**
 * Bundles test files with all that they load from the checkout. Loading these hundreds of modules one by one, through
 * a loader that compiles TypeScript, takes more processor time than most tests.
 */
import { readFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { pathToFileURL } from 'node:url';
import { inRoot, root } from './root.js';

/** Its files import packages that only a program in this folder finds. */
const WITH_PACKAGES = 'test/clients/';
/** An import of a computed path: the module may be TypeScript, which only the loader can run. */
const COMPUTED_IMPORT = /\bawait import\((?!['"])/;

/**
 * Bundles `files`, paths from the root, into `folder`, which must lie below the root for packages to be found. Returns
 * the path of each file's program by the file. A file without one must be run through the loader.
 */
export async function bundleTests(files, folder) {
  const entryPoints = files.filter((file) => !file.startsWith(WITH_PACKAGES));
  if (entryPoints.length === 0) return new Map();
  // Imported here: the step that installs it runs before this one.
  const { build, transform } = await import('esbuild');
  const unbundled = new Set();
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints,
    outbase: root,
    outdir: folder,
    bundle: true,
    format: 'esm',
    platform: 'node',
    packages: 'external',
    target: `node${process.versions.node}`,
    // Errors show the lines of the sources.
    sourcemap: 'linked',
    sourcesContent: false,
    metafile: true,
    logLevel: 'error',
    plugins: [ownPlaces(unbundled, transform)],
  });
  const programs = Object.entries(metafile.outputs).filter(
    ([, { entryPoint, inputs }]) =>
      entryPoint !== undefined && !Object.keys(inputs).some((path) => unbundled.has(inRoot(path))),
  );
  return new Map(programs.map(([program, { entryPoint }]) => [entryPoint, inRoot(program)]));
}

/**
 * In a bundle, `import.meta` of every module is that of the bundle: here each module gets its own place as text. Adds
 * the path of a module with a computed import to `unbundled`.
 */
function ownPlaces(unbundled, transform) {
  return {
    name: 'own-places',
    setup({ onLoad }) {
      onLoad({ filter: /\.[jt]s$/ }, async ({ path }) => {
        const text = await readFile(path, 'utf8');
        if (COMPUTED_IMPORT.test(text)) unbundled.add(path);
        const define = {
          'import.meta.url': JSON.stringify(pathToFileURL(path).href),
          'import.meta.dirname': JSON.stringify(dirname(path)),
        };
        const options = { loader: path.endsWith('.ts') ? 'ts' : 'js', define, sourcefile: path, sourcemap: 'inline' };
        return { contents: (await transform(text, options)).code };
      });
    },
  };
}

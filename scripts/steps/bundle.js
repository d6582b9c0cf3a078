/** Bundles src/ and the packages that it uses into one CommonJS file, for the single executable. */
import { readdir, readFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { build } from 'esbuild';
import { manifest } from './platforms.js';
import { inRoot, root } from './root.js';

/** Folders of packages with files that the packages read when they run. */
export const READ_BY_PACKAGES = [
  'node_modules/@grpc/reflection/build/proto/grpc',
  'node_modules/grpc-health-check/proto',
];

/**
 * Writes the bundle to `outfile`; returns the licence texts of all packages in it. Dynamic imports stay lazy: a command
 * runs only the modules that it needs.
 */
export async function bundle(outfile) {
  const { metafile } = await build({
    entryPoints: [inRoot('src/executable/main.ts')],
    absWorkingDir: root,
    outfile,
    bundle: true,
    platform: 'node',
    format: 'cjs',
    // UMD, which some packages have as `main`, hides its imports.
    mainFields: ['module', 'main'],
    target: `node${manifest.engines.node.replace(/^>=/, '')}`,
    // The script of an executable has no import(), not even for Node's own modules.
    supported: { 'dynamic-import': false },
    minifyWhitespace: true,
    minifySyntax: true,
    metafile: true,
    logLevel: 'error',
    // Only createRequire() uses it, for native modules by absolute path.
    banner: { js: "const svcUrl = require('node:url').pathToFileURL(process.execPath).href;" },
    define: { 'import.meta.url': 'svcUrl' },
    plugins: [foldersOfPackages],
  });
  return await licencesOf(Object.keys(metafile.inputs));
}

/** `__dirname` of packages that read files beside their code is the folder of the unpacked files. */
const foldersOfPackages = {
  name: 'folders-of-packages',
  setup({ onLoad }) {
    onLoad({ filter: /[\\/]node_modules[\\/](@grpc[\\/]|grpc-health-check[\\/])/ }, async ({ path }) => {
      const text = await readFile(path, 'utf8');
      if (!text.includes('__dirname')) return undefined;
      const folder = dirname(path.slice(path.indexOf('node_modules'))).replaceAll('\\', '/');
      const own = JSON.stringify(inRoot('src/process/own-files.ts'));
      return { contents: text.replaceAll('__dirname', `require(${own}).ownFile(${JSON.stringify(folder)})`) };
    });
  },
};

async function licencesOf(inputs) {
  const folders = inputs.flatMap((path) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0] ?? []);
  const texts = await Promise.all([...new Set(folders)].sort().map((folder) => licenceOf(resolve(root, folder))));
  return texts.join('\n');
}

async function licenceOf(folder) {
  const { name, version, license } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'));
  const file = (await readdir(folder)).find((each) => /^(licen[cs]e|copying)/i.test(each));
  const text = file === undefined ? '' : await readFile(join(folder, file), 'utf8');
  return `## ${name} ${version} (${license})\n\n${text.trim()}\n`;
}

/**
 * Bundles src/ and the packages that it uses: loading a bundle takes half as long as loading their 700 files, and what
 * is installed has no dependencies.
 */
import { cp, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { packageOf } from './packages.js';
import { manifest } from './platforms.js';
import { inRoot, root } from './root.js';

/** Where the packages find, in dist/, the files that they read when they run. */
const PACKAGES = 'dist/packages';
/** Folders of such files. */
const READ_BY_PACKAGES = ['@grpc/reflection/build/proto/grpc', 'grpc-health-check/proto'];
const TARGET = `node${manifest.engines.node.replace(/^>=/, '')}`;

/**
 * Options for CommonJS without import(): the script of an executable has none, not even for Node's own modules, and in
 * a program it would start Node's loader for ES modules. `import.meta.url` becomes `svcUrl`, which a banner declares.
 */
const COMMON_JS = {
  format: 'cjs',
  supported: { 'dynamic-import': false },
  define: { 'import.meta.url': 'svcUrl' },
};
const urlOf = (path) => `const svcUrl = require('node:url').pathToFileURL(${path}).href;`;

/**
 * Bundles programs as CommonJS into `outdir`; `entries`: paths relative to src/. What several of them load is in
 * `chunks/`. A module that src/ loads by `import()` is still loaded only then. Returns the licence texts of all
 * packages.
 *
 * Why CommonJS: a process that runs no ES module does not start Node's loader for them (docs/decisions.md has figures).
 */
export async function bundlePrograms(entries, outdir) {
  const { outputFiles, licences } = await bundleSplit(entries, outdir, {
    outExtension: { '.js': '.cjs' },
    write: false,
  });
  for (const { path, text } of outputFiles) {
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, await toCommonJs(text));
  }
  for (const folder of READ_BY_PACKAGES) {
    await cp(inRoot('node_modules', folder), join(outdir, 'packages', folder), { recursive: true });
  }
  return licences;
}

/** Bundles what other programs import as ES modules, in the same way. It uses no package. */
export async function bundleLibraries(entries, outdir) {
  await bundleSplit(entries, outdir, { packages: 'external' });
}

async function bundleSplit(entries, outdir, options) {
  return await bundle({
    entryPoints: entries.map((entry) => inRoot('src', entry)),
    outbase: inRoot('src'),
    outdir,
    format: 'esm',
    splitting: true,
    // As deep as the modules in src/, so that `import.meta.url` leads to the same places.
    chunkNames: 'chunks/[name]-[hash]',
    ...options,
  });
}

/** esbuild splits nothing but ES modules, so their files are converted one by one. */
async function toCommonJs(text) {
  const { transform } = await import('esbuild');
  const { code } = await transform(text, {
    ...COMMON_JS,
    platform: 'node',
    target: TARGET,
    banner: urlOf('__filename'),
  });
  return code;
}

/** Bundles all into one CommonJS file, for the single executable. Returns the licence texts of all packages. */
export async function bundleExecutable(outfile) {
  const { licences } = await bundle({
    ...COMMON_JS,
    entryPoints: [inRoot('src/executable/main.ts')],
    outfile,
    minifyWhitespace: true,
    minifySyntax: true,
    // Only createRequire() uses it, for native modules by absolute path.
    banner: { js: urlOf('process.execPath') },
  });
  return licences;
}

async function bundle(options) {
  // Imported here: the step that installs it runs before this one.
  const { build } = await import('esbuild');
  const { metafile, outputFiles } = await build({
    absWorkingDir: root,
    bundle: true,
    platform: 'node',
    // UMD, which some packages have as `main`, hides its imports.
    mainFields: ['module', 'main'],
    target: TARGET,
    legalComments: 'none',
    metafile: true,
    logLevel: 'error',
    plugins: [foldersOfPackages],
    ...options,
  });
  return { outputFiles, licences: await licencesOf(Object.keys(metafile.inputs)) };
}

/** Packages whose `__dirname` leads to what svc does not use: worker threads, and gRPC's services channelz and ORCA. */
const UNUSED = new Set(['pino', 'thread-stream', '@grpc/grpc-js']);

/** `__dirname` of packages that read files beside their code is a folder of svc's own files. */
const foldersOfPackages = {
  name: 'folders-of-packages',
  setup({ onLoad }) {
    onLoad({ filter: /[\\/]node_modules[\\/].*\.[cm]?js$/ }, async ({ path }) => {
      const text = await readFile(path, 'utf8');
      if (!text.includes('__dirname')) return undefined;
      const { name, file } = packageOf(path);
      if (UNUSED.has(name)) return undefined;
      if (!READ_BY_PACKAGES.some((folder) => folder.startsWith(`${name}/`))) {
        return { errors: [{ text: `${name}/${file} reads files beside it: name their folder in READ_BY_PACKAGES` }] };
      }
      const folder = JSON.stringify(`${PACKAGES}/${name}/${dirname(file)}`);
      const own = JSON.stringify(inRoot('src/process/own-files.ts'));
      return { contents: text.replaceAll('__dirname', `require(${own}).ownFile(${folder})`) };
    });
  },
};

async function licencesOf(inputs) {
  const folders = inputs.flatMap((path) => packageOf(path)?.folder ?? []);
  const texts = await Promise.all([...new Set(folders)].sort().map((folder) => licenceOf(resolve(root, folder))));
  return texts.join('\n');
}

async function licenceOf(folder) {
  const { name, version, license } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'));
  const file = (await readdir(folder)).find((each) => /^(licen[cs]e|copying)/i.test(each));
  const text = file === undefined ? '' : await readFile(join(folder, file), 'utf8');
  return `## ${name} ${version} (${license})\n\n${text.trim()}\n`;
}

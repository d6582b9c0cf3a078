/**
 * Makes the single executable: a copy of this Node with the bundled code and all files of svc in it (Node's "single
 * executable application"). src/executable/ is its other side.
 */
import { createHash } from 'node:crypto';
import { chmod, copyFile, mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { gzipSync } from 'node:zlib';
import lockfile from 'proper-lockfile';
import { nativeInputs } from './addon.js';
import { bundle, READ_BY_PACKAGES } from './bundle.js';
import { compileSources } from './dist.js';
import { copyInto, stagingFolder, writeJson } from './pack.js';
import { lockedPackage } from './packages.js';
import { buildNative, NOTICES, stageNative } from './platform-package.js';
import { host, manifest } from './platforms.js';
import { inRoot } from './root.js';
import { run, say, StepError } from './run.js';
import { isInstalled } from './tools.js';
import { unlessFresh } from './unless-fresh.js';

const FOLDER = 'build/executable';
const SUFFIX = process.platform === 'win32' ? '.exe' : '';
/** The name by which Node finds the blob in its own file, and the mark that says that there is one. */
const BLOB = 'NODE_SEA_BLOB';
const FUSE = 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2';
const LICENCES = 'LICENCES.md';
const OLDEST_NODE = [20, 18, 1];

/** The executable that needs nothing but the system's C and C++ library. */
export const EXECUTABLE = `${FOLDER}/svc${SUFFIX}`;
/** The same for a package, which has the native files beside it, in `files-DIGEST`. */
export const PACKAGED = `${FOLDER}/packaged/svc${SUFFIX}`;

/**
 * Makes both executables; returns `{ executable, packaged, files, digest }`: paths, and the digest of the files. Safe
 * for concurrent processes.
 */
export async function makeExecutables() {
  requireNode();
  await mkdir(inRoot('build'), { recursive: true });
  const lock = {
    lockfilePath: inRoot(`${FOLDER}.lock`),
    // A busy machine may let the holder of the lock wait for its turn to touch it.
    stale: 300_000,
    update: 5_000,
    retries: { forever: true, minTimeout: 200, maxTimeout: 1000 },
  };
  const release = await lockfile.lock(inRoot('build'), lock);
  try {
    return await buildIfStale();
  } finally {
    await release();
  }
}

async function buildIfStale() {
  await compileSources();
  const bin = await buildNative(host);
  const native = await nativeInputs();
  const inputs = [
    ...['src', 'dist', 'proto', 'providers', 'models/catalogue.json', 'models/nano/nano.gguf', ...NOTICES],
    ...['bundle', 'executable', 'platform-package'].map((name) => `scripts/steps/${name}.js`),
    ...['package.json', 'package-lock.json'],
    ...native.inputs,
  ];
  const facts = [...native.facts, process.version, await lockedPackage('esbuild'), await lockedPackage('postject')];
  await unlessFresh('executable', { inputs, facts, outputs: [EXECUTABLE, PACKAGED, `${FOLDER}/files.json`] }, () =>
    build(bin),
  );
  const { digest } = JSON.parse(await readFile(inRoot(FOLDER, 'files.json'), 'utf8'));
  const files = inRoot(FOLDER, `packaged/files-${digest}`);
  return { executable: inRoot(EXECUTABLE), packaged: inRoot(PACKAGED), files, digest };
}

function requireNode() {
  const version = process.versions.node.split('.').map(Number);
  const different = OLDEST_NODE.findIndex((part, at) => part !== version[at]);
  if (different !== -1 && version[different] < OLDEST_NODE[different]) {
    throw new StepError(`the executable needs Node ${OLDEST_NODE.join('.')} or newer, not ${process.versions.node}`);
  }
}

async function build(bin) {
  await rm(inRoot(FOLDER), { recursive: true, force: true });
  await mkdir(inRoot(FOLDER, 'packaged'), { recursive: true });
  say('bundling src/ and its packages');
  const licences = await bundle(inRoot(FOLDER, 'svc.cjs'));
  const staged = await stage(bin, licences);
  const list = await listOf(staged);
  await writeJson(inRoot(FOLDER, 'files.json'), list);
  await rename(staged, inRoot(FOLDER, `packaged/files-${list.digest}`));
  const node = await strippedNode();
  await assemble(node, EXECUTABLE, list, false);
  await assemble(node, PACKAGED, list, true);
  for (const name of ['node', 'assets', 'svc.cjs']) await rm(inRoot(FOLDER, name), { recursive: true });
}

/** Returns a folder with all files, laid out as the npm package is. */
async function stage(bin, licences) {
  const folder = await stagingFolder('executable');
  const { version, engines, devDependencies } = manifest;
  await writeJson(join(folder, 'package.json'), { version, engines, devDependencies });
  const names = ['models/catalogue.json', 'dist/console', 'proto', 'providers', ...NOTICES, ...READ_BY_PACKAGES];
  await copyInto(folder, names);
  if ((await stat(inRoot('dist/commit')).catch(() => null)) !== null) await copyInto(folder, ['dist/commit']);
  await writeFile(join(folder, LICENCES), `# Licences of the packages in svc\n\n${licences}\n${await licenceOfNode()}`);
  await stageNative(host, bin, folder);
  return folder;
}

/** Node's own licence, with those of its parts, from the places where its archive and Debian's package have it. */
async function licenceOfNode() {
  const places = ['LICENSE', 'share/doc/nodejs/LICENSE', 'share/doc/nodejs/copyright'];
  for (const place of places) {
    const text = await readFile(join(dirname(dirname(process.execPath)), place), 'utf8').catch(() => null);
    if (text !== null) return `## Node ${process.versions.node}\n\n${text}`;
  }
  return `## Node ${process.versions.node}\n\nhttps://github.com/nodejs/node/blob/${process.version}/LICENSE\n`;
}

/** The content of LIST in src/executable/unpack.ts, without `isBeside`. */
async function listOf(folder) {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const paths = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const files = [];
  for (const path of paths.sort()) {
    const content = await readFile(path);
    const sha256 = createHash('sha256').update(content).digest('hex');
    files.push({ path: relative(folder, path).replaceAll('\\', '/'), bytes: content.length, sha256 });
  }
  const digest = createHash('sha256').update(JSON.stringify(files)).digest('hex').slice(0, 32);
  return { digest, files };
}

/** Returns the path of a copy of this Node without debugging symbols, which are a fifth of it. */
async function strippedNode() {
  const path = inRoot(FOLDER, 'node');
  await copyFile(process.execPath, path);
  await chmod(path, 0o755);
  // A signature would not fit the changed file; the executable is signed again, if it is.
  if (process.platform === 'darwin') await run('removing the signature', 'codesign', ['--remove-signature', path]);
  if (process.platform === 'linux' && (await isInstalled('strip'))) await run('stripping Node', 'strip', ['-s', path]);
  return path;
}

/** `isBeside`: only the files that svc reads as text are in the executable, not those that need a place on disk. */
async function assemble(node, executable, { digest, files }, isBeside) {
  const folder = inRoot(FOLDER, 'assets');
  await rm(folder, { recursive: true, force: true });
  const assets = {};
  const add = async (path, content) => {
    assets[path] = join(folder, path);
    await mkdir(dirname(assets[path]), { recursive: true });
    await writeFile(assets[path], gzipSync(content, { level: 9 }));
  };
  await add('files.json', JSON.stringify({ digest, files, isBeside }));
  for (const { path } of files) {
    const isText = path.endsWith('.json') || path === 'dist/commit';
    if (isText || !isBeside) await add(path, await readFile(inRoot(FOLDER, `packaged/files-${digest}`, path)));
  }
  const config = join(folder, 'sea-config.json');
  const blob = join(folder, 'blob');
  await writeJson(config, {
    main: inRoot(FOLDER, 'svc.cjs'),
    output: blob,
    disableExperimentalSEAWarning: true,
    useCodeCache: true,
    assets,
  });
  await run('preparing the blob', process.execPath, ['--experimental-sea-config', config]);
  const fresh = `${inRoot(executable)}.new`;
  await copyFile(node, fresh);
  await chmod(fresh, 0o755);
  const postject = inRoot('node_modules/postject/dist/cli.js');
  const segment = process.platform === 'darwin' ? ['--macho-segment-name', 'NODE_SEA'] : [];
  const options = ['--sentinel-fuse', FUSE, ...segment];
  await run(`making ${executable}`, process.execPath, [postject, fresh, BLOB, blob, ...options]);
  if (process.platform === 'darwin') await run('signing', 'codesign', ['--sign', '-', fresh]);
  await rename(fresh, inRoot(executable));
}

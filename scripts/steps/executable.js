/**
 * Makes the single executable: a copy of this Node with the bundled code and all files of svc in it (Node's "single
 * executable application"). src/executable/ is its other side.
 */
import { createHash } from 'node:crypto';
import { chmod, copyFile, mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { basename, dirname, join, relative } from 'node:path';
import { gzipSync } from 'node:zlib';
import lockfile from 'proper-lockfile';
import { nativeInputs } from './addon.js';
import { bundleExecutable } from './bundle.js';
import { compileSources, LICENCES } from './dist.js';
import { copyInto, stagingFolder, writeJson } from './pack.js';
import { lockedPackage } from './packages.js';
import { NODES, nodeFromNpm } from './node-from-npm.js';
import { buildNative, copyNotices, noticesOf, stageNative } from './platform-package.js';
import { host, manifest, platformNamed, platforms } from './platforms.js';
import { inRoot } from './root.js';
import { run, say, StepError } from './run.js';
import { isInstalled } from './tools.js';
import { unlessFresh } from './unless-fresh.js';

/** The name by which Node finds the blob in its own file, and the mark that says that there is one. */
const BLOB = 'NODE_SEA_BLOB';
const FUSE = 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2';
const OLDEST_NODE = [20, 18, 1];

/**
 * What is made for a platform: `folder`, `executable`, which needs nothing but the system's C and C++ library, and
 * `packaged`, the same for a package, which has the native files beside it, in `files-DIGEST`.
 */
function planFor(platform) {
  const folder = platform === host ? 'build/executable' : `build/executable-${platform}`;
  const name = platforms[platform].os === 'win32' ? 'svc.exe' : 'svc';
  return { platform, folder, executable: `${folder}/${name}`, packaged: `${folder}/packaged/${name}` };
}

/**
 * Makes both executables; returns `{ executable, packaged, files, digest }`: paths, and the digest of the files. Those
 * of another platform are made of the same version of Node, from npm. Safe for concurrent processes.
 */
export async function makeExecutables(platform = host) {
  requireNode();
  const plan = planFor(platformNamed(platform));
  await mkdir(inRoot('build'), { recursive: true });
  const lock = {
    lockfilePath: inRoot(`${plan.folder}.lock`),
    // A busy machine may let the holder of the lock wait for its turn to touch it.
    stale: 300_000,
    update: 5_000,
    retries: { forever: true, minTimeout: 200, maxTimeout: 1000 },
  };
  const release = await lockfile.lock(inRoot('build'), lock);
  try {
    return await buildIfStale(plan);
  } finally {
    await release();
  }
}

async function buildIfStale(plan) {
  const { platform, folder, executable, packaged } = plan;
  await compileSources();
  const bin = await buildNative(platform);
  const native = await nativeInputs();
  const inputs = [
    ...['src', 'dist', 'proto', 'providers', 'models/catalogue.json', 'models/nano/nano.gguf', ...noticesOf(platform)],
    ...['bundle', 'executable', 'platform-package'].map((name) => `scripts/steps/${name}.js`),
    ...['package.json', 'package-lock.json', NODES],
    ...native.inputs,
  ];
  const facts = [...native.facts, process.version, await lockedPackage('esbuild'), await lockedPackage('postject')];
  const outputs = [executable, packaged, `${folder}/files.json`];
  await unlessFresh(basename(folder), { inputs, facts, outputs }, () => build(plan, bin));
  const { digest } = JSON.parse(await readFile(inRoot(folder, 'files.json'), 'utf8'));
  const files = inRoot(folder, `packaged/files-${digest}`);
  return { executable: inRoot(executable), packaged: inRoot(packaged), files, digest };
}

function requireNode() {
  const version = process.versions.node.split('.').map(Number);
  const different = OLDEST_NODE.findIndex((part, at) => part !== version[at]);
  if (different !== -1 && version[different] < OLDEST_NODE[different]) {
    throw new StepError(`the executable needs Node ${OLDEST_NODE.join('.')} or newer, not ${process.versions.node}`);
  }
}

async function build(plan, bin) {
  const { platform, folder } = plan;
  await rm(inRoot(folder), { recursive: true, force: true });
  await mkdir(inRoot(folder, 'packaged'), { recursive: true });
  say('bundling src/ and its packages');
  const licences = await bundleExecutable(inRoot(folder, 'svc.cjs'));
  const staged = await stage(platform, bin, licences);
  const list = await listOf(staged);
  await writeJson(inRoot(folder, 'files.json'), list);
  await rename(staged, inRoot(folder, `packaged/files-${list.digest}`));
  await copyNode(platform, inRoot(folder, 'node'));
  await assemble(plan, list, false);
  await assemble(plan, list, true);
  for (const name of ['node', 'assets', 'svc.cjs']) await rm(inRoot(folder, name), { recursive: true });
}

/** Returns a folder with all files, laid out as the npm package is. */
async function stage(platform, bin, licences) {
  const folder = await stagingFolder(`executable-${platform}`);
  const { version, engines, devDependencies } = manifest;
  await writeJson(join(folder, 'package.json'), { version, engines, devDependencies });
  const names = ['models/catalogue.json', 'dist/console', 'dist/packages', 'proto', 'providers'];
  await copyInto(folder, names);
  await copyNotices(platform, folder);
  if ((await stat(inRoot('dist/commit')).catch(() => null)) !== null) await copyInto(folder, ['dist/commit']);
  await writeFile(join(folder, LICENCES), `# Licences of the packages in svc\n\n${licences}\n${await licenceOfNode()}`);
  await stageNative(platform, bin, folder);
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

/** Copies Node for the platform to `path`; this one without debugging symbols, which are a fifth of it. */
async function copyNode(platform, path) {
  const { os } = platforms[platform];
  await copyFile(platform === host ? process.execPath : await nodeFromNpm(platform, process.versions.node), path);
  await chmod(path, 0o755);
  if (platform !== host) return;
  // A signature would not fit the changed file; the executable is signed again, if it is.
  if (os === 'darwin') await run('removing the signature', 'codesign', ['--remove-signature', path]);
  if (os === 'linux' && (await isInstalled('strip'))) await run('stripping Node', 'strip', ['-s', path]);
}

/** `isBeside`: only the files that svc reads as text are in the executable, not those that need a place on disk. */
async function assemble({ platform, folder: made, executable, packaged }, { digest, files }, isBeside) {
  const folder = inRoot(made, 'assets');
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
    if (isText || !isBeside) await add(path, await readFile(inRoot(made, `packaged/files-${digest}`, path)));
  }
  const config = join(folder, 'sea-config.json');
  const blob = join(folder, 'blob');
  await writeJson(config, {
    main: inRoot(made, 'svc.cjs'),
    output: blob,
    disableExperimentalSEAWarning: true,
    // The code cache is for the processor and the Node that made it.
    useCodeCache: platform === host,
    assets,
  });
  await run('preparing the blob', process.execPath, ['--experimental-sea-config', config]);
  const wanted = isBeside ? packaged : executable;
  const fresh = `${inRoot(wanted)}.new`;
  await copyFile(inRoot(made, 'node'), fresh);
  await chmod(fresh, 0o755);
  const postject = inRoot('node_modules/postject/dist/cli.js');
  const segment = platforms[platform].os === 'darwin' ? ['--macho-segment-name', 'NODE_SEA'] : [];
  const options = ['--sentinel-fuse', FUSE, ...segment];
  await run(`making ${wanted}`, process.execPath, [postject, fresh, BLOB, blob, ...options]);
  if (process.platform === 'darwin') await run('signing', 'codesign', ['--sign', '-', fresh]);
  await rename(fresh, inRoot(wanted));
}

/** Installs node_modules according to package-lock.json: of the repository, and of folders of tests. */
import { readFile } from 'node:fs/promises';
import { inRoot, root } from './root.js';
import { run } from './run.js';

/** Folders of tests with packages of their own, which only their tests need: large ones, or for a newer Node. */
const TEST_FOLDERS = ['test/clients'];

export async function installPackages() {
  if (!(await isInstalled('.'))) await npmCi('installing packages (npm ci)', root);
}

/** Installs the packages of those test folders that contain one of `files`. */
export async function installTestPackages(files) {
  for (const folder of TEST_FOLDERS) {
    if (!files.some((file) => file.startsWith(`${folder}/`)) || (await isInstalled(folder))) continue;
    await npmCi(`installing the packages of ${folder} (npm ci)`, inRoot(folder));
  }
}

async function npmCi(title, cwd) {
  await run(title, 'npm', ['ci'], { cwd, env: withoutProjectSettings() });
}

/** The environment without what an outer `npm test` took from .npmrc: a folder of tests has an .npmrc of its own. */
function withoutProjectSettings() {
  return { ...process.env, npm_config_engine_strict: undefined };
}

/** Version and integrity of a package in package-lock.json. */
export async function lockedPackage(name) {
  const { version, integrity } = (await readLock('package-lock.json')).packages[`node_modules/${name}`] ?? {};
  return { version, integrity };
}

/** What svc needs when it runs: version by folder, such as `node_modules/pino`. */
export async function lockedDependencies() {
  const { packages } = await readLock('package-lock.json');
  const used = Object.entries(packages).filter(
    ([path, { dev = false, devOptional = false, link = false }]) => path !== '' && !dev && !devOptional && !link,
  );
  return new Map(used.map(([path, { version }]) => [path, version]));
}

/**
 * The package in whose folder a file is: `{ folder, name, file }`, with `/` between folders and `file` relative to
 * `folder`. null: the file is in no node_modules.
 */
export function packageOf(path) {
  const match = /^(.*\bnode_modules\/((?:@[^/]+\/)?[^/]+))\/(.+)$/.exec(path.replaceAll('\\', '/'));
  if (match === null) return null;
  const [, folder, name, file] = match;
  return { folder, name, file };
}

/** True if npm's record of installed packages equals the lock file, except packages for other platforms. */
async function isInstalled(folder) {
  const locked = await readLock(`${folder}/package-lock.json`);
  const installed = await readLock(`${folder}/node_modules/.package-lock.json`);
  if (installed === null) return false;
  const identity = ({ version, integrity, link }) => JSON.stringify([version, integrity, link]);
  return Object.entries(locked.packages).every(([path, entry]) => {
    const there = installed.packages[path];
    if (path === '' || (there === undefined && entry.optional)) return true;
    return there !== undefined && identity(there) === identity(entry);
  });
}

async function readLock(path) {
  const text = await readFile(inRoot(path), 'utf8').catch(() => null);
  return text === null ? null : JSON.parse(text);
}

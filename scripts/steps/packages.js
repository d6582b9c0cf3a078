/** Installs node_modules according to package-lock.json. */
import { readFile } from 'node:fs/promises';
import { inRoot } from './root.js';
import { run } from './run.js';

export async function installPackages() {
  if (await isInstalled()) return;
  const npm = process.platform === 'win32' ? 'npm.cmd' : 'npm';
  await run('installing packages (npm ci)', npm, ['ci']);
}

/** Version and integrity of a package in package-lock.json. */
export async function lockedPackage(name) {
  const { version, integrity } = (await readLock('package-lock.json')).packages[`node_modules/${name}`] ?? {};
  return { version, integrity };
}

/** True if npm's record of installed packages equals the lock file, except packages for other platforms. */
async function isInstalled() {
  const locked = await readLock('package-lock.json');
  const installed = await readLock('node_modules/.package-lock.json');
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

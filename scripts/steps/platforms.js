/** The platforms that have a package of native files, and the names of the packages. */
import { readFile } from 'node:fs/promises';
import { inRoot } from './root.js';
import { StepError } from './run.js';

/**
 * By Node's name of the platform. `crossCompiler`: program with which another machine can build it; `fromSource`: libllama
 * is built with these definitions, for all processors of the platform, because no prebuilt one can be linked; `macos`:
 * the oldest macOS on which the package runs; `notices`: files of licences that only this package needs.
 */
export const platforms = await readJson('npm/platforms.json');
export const host = `${process.platform}-${process.arch}`;

export const manifest = await readJson('package.json');
/** Name of the package of JavaScript, which depends on one package for the platform. */
export const RUNTIME = manifest.name;
export const packageName = (platform) => `${RUNTIME}-${platform}`;
export const tarballName = (name) => `${name}-${manifest.version}.tgz`;

/** Returns the platform for `linux-x64` and for `svc-runtime-linux-x64`; throws StepError if it has no package. */
export function platformNamed(name) {
  const platform = name.startsWith(`${RUNTIME}-`) ? name.slice(RUNTIME.length + 1) : name;
  if (Object.hasOwn(platforms, platform)) return platform;
  throw new StepError(`there is no package for ${name}, only for ${Object.keys(platforms).join(', ')}`);
}

/** Default folder of the tarballs. */
export const PACKAGES = 'build/packages';

/** Fields of a package manager: it installs the package only on this platform. */
export function restrictions(platform) {
  const { os, cpu, libc } = platforms[platform];
  return { os: [os], cpu: [cpu], ...(libc === undefined ? {} : { libc: [libc] }) };
}

export async function readJson(name) {
  return JSON.parse(await readFile(inRoot(name), 'utf8'));
}

/**
 * Finds the native files and the built-in model. A checkout builds them; the single executable unpacks them; an
 * installation has them in a package for its platform, an optional dependency that a package manager skips on request,
 * or installs for the machine it runs on only.
 */
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { isExecutable, ownFile } from './own-files.ts';

/** Name of the package of JavaScript; that of a platform follows it. */
export const PACKAGE = 'svc-runtime';
/** Platforms that have a package; npm/platforms.json describes them. */
export const PLATFORMS: readonly string[] = ['linux-x64', 'linux-arm64', 'win32-x64', 'darwin-arm64'];

export interface NativePlace {
  /** Directory of svc.node, process.node and their libraries. */
  readonly folder: string;
  /** Path of the built-in model. */
  readonly model: string;
}

/** One sentence about a missing or wrong package, and how to fix it. */
export interface MissingPackage {
  readonly message: string;
  readonly hint: string;
}

/** Kept, because an engine in its sandbox cannot read the files that lead to it. */
let found: NativePlace | undefined;

/** Returns where the files are, or why the package that should have them cannot be used. */
export function nativePlace(): NativePlace | MissingPackage {
  if (found !== undefined) return found;
  const place = findPlace();
  if ('folder' in place) found = place;
  return place;
}

function findPlace(): NativePlace | MissingPackage {
  if (isExecutable) return unpackedPlace();
  if (existsSync(ownFile('CMakeLists.txt'))) {
    return { folder: ownFile('build/addon/bin'), model: ownFile('models/nano/nano.gguf') };
  }
  return placeOfPackage({ platform: `${process.platform}-${process.arch}`, from: import.meta.url, home: ownFile('') });
}

function unpackedPlace(): NativePlace | MissingPackage {
  try {
    return { folder: ownFile('bin'), model: ownFile('nano.gguf') };
  } catch (error) {
    const { message, hint = 'install svc again' } = error as Error & { hint?: string };
    return { message: `the files of the executable cannot be unpacked: ${message}`, hint };
  }
}

export interface PackageSearch {
  readonly platform: string;
  /** URL or path of a file of svc-runtime, from which its dependencies are resolved. */
  readonly from: string;
  /** Folder of svc-runtime. */
  readonly home: string;
}

/** Returns the place in the package of a platform, which must have the version of svc-runtime. */
export function placeOfPackage({ platform, from, home }: PackageSearch): NativePlace | MissingPackage {
  const version = versionIn(home);
  const name = `${PACKAGE}-${platform}`;
  const folder = folderOf(name, from);
  if (folder === null) {
    return PLATFORMS.includes(platform) ? missing({ platform, from, home }) : unsupported(platform);
  }
  const other = versionIn(folder);
  if (other !== version) {
    return { message: `${name} has version ${other}, ${PACKAGE} has ${version}`, hint: reinstall(home) };
  }
  return { folder: join(folder, 'bin'), model: join(folder, 'nano.gguf') };
}

function missing({ platform, from, home }: PackageSearch): MissingPackage {
  if (platform.startsWith('linux-') && isMusl()) return unsupported(`${platform} with the C library musl`);
  const name = `${PACKAGE}-${platform}`;
  const instead = PLATFORMS.filter((each) => folderOf(`${PACKAGE}-${each}`, from) !== null);
  const has = instead.length === 0 ? '' : `; this installation is for ${instead.join(' and ')}`;
  return {
    message: `the package ${name}, with the engine and the built-in model, is not installed${has}`,
    hint: reinstall(home),
  };
}

function unsupported(platform: string): MissingPackage {
  return {
    message: `${PACKAGE} has no package for ${platform}, only for ${PLATFORMS.join(', ')} (Linux with glibc)`,
    hint: 'run svc on one of these platforms, or build it from source: `npm run build` in a checkout',
  };
}

/** The command that installs what is missing: for all users of this machine, or in the project that svc is part of. */
function reinstall(home: string): string {
  const isInProject = basename(dirname(home)) === 'node_modules' && existsSync(join(home, '..', '..', 'package.json'));
  const where = isInProject ? '' : '--global ';
  return `run: npm install ${where}--include=optional ${PACKAGE}@${versionIn(home)}`;
}

function folderOf(name: string, from: string): string | null {
  try {
    return dirname(createRequire(from).resolve(`${name}/package.json`));
  } catch {
    return null;
  }
}

function versionIn(folder: string): string {
  return (JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { version: string }).version;
}

/** Node's report has the version of glibc if Node was linked with it. */
function isMusl(): boolean {
  const { header } = process.report.getReport() as { header: { glibcVersionRuntime?: string } };
  return process.platform === 'linux' && header.glibcVersionRuntime === undefined;
}

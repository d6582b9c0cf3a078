/**
 * Checks $SVC_HOME before it is used: a home that no command could use is rejected with one error. A home that was
 * used before and is no longer writable is accepted: a daemon may run in it, and many commands only read.
 */
import { accessSync, constants, lstatSync, readdirSync, statfsSync, statSync, type Stats } from 'node:fs';
import { dirname, parse, resolve } from 'node:path';
import { whyOf } from '../files/why.ts';
import { SvcError } from '../protocol/errors.ts';

/** Magic numbers of kernel file systems, in which users cannot create files: proc, sysfs, cgroup, cgroup2. */
const KERNEL_FILE_SYSTEMS: readonly number[] = [0x9fa0, 0x62656572, 0x27e0eb, 0x63677270];
const HINT = 'set SVC_HOME to a directory that you can write to';

/** Throws CONFIG_INVALID when `home` is not a directory, CANNOT_WRITE when it cannot be created or used. */
export function checkHome(home: string): void {
  const found = lookAt(home);
  if (found === null) {
    requireWritable(nearest(dirname(home)), home);
    return;
  }
  if (!found.isDirectory()) throw invalid(home, 'it is not a directory');
  if (resolve(home) === parse(home).root) throw invalid(home, 'it is the root directory');
  const names = namesIn(home);
  if (names.length === 0) requireWritable(home, home);
  else if (isOfKernel(home)) throw cannotWrite(home, 'the file system is read-only');
}

/** Returns null if nothing exists there. */
function lookAt(home: string): Stats | null {
  try {
    return statSync(home);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw invalid(home, whyOf(error));
  }
  const entry = lstatSync(home, { throwIfNoEntry: false });
  if (entry?.isSymbolicLink() === true) throw invalid(home, 'it is a broken link');
  // Where it exists by now, another command has just created it.
  return entry ?? null;
}

function namesIn(home: string): string[] {
  try {
    accessSync(home, constants.X_OK);
    return readdirSync(home);
  } catch (error) {
    throw invalid(home, whyOf(error));
  }
}

/** The nearest parent directory that exists. */
function nearest(directory: string): string {
  const found = statSync(directory, { throwIfNoEntry: false });
  return found !== undefined || dirname(directory) === directory ? directory : nearest(dirname(directory));
}

function requireWritable(directory: string, home: string): void {
  if (isOfKernel(directory)) throw cannotWrite(home, 'the file system is read-only');
  try {
    accessSync(directory, constants.W_OK | constants.X_OK);
  } catch (error) {
    throw cannotWrite(home, whyOf(error));
  }
}

function isOfKernel(directory: string): boolean {
  return process.platform === 'linux' && KERNEL_FILE_SYSTEMS.includes(statfsSync(directory).type);
}

function invalid(home: string, why: string): SvcError {
  return new SvcError('CONFIG_INVALID', `SVC_HOME ${home} cannot be used: ${why}`, { hint: HINT });
}

function cannotWrite(home: string, why: string): SvcError {
  return new SvcError('CANNOT_WRITE', `cannot write to SVC_HOME ${home}: ${why}`, { hint: HINT });
}

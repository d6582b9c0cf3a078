/** Checks for the tools that a native build needs, before CMake fails without them. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { StepError } from './run.js';

/** Why a machine with Windows builds no engine. */
export const BUILT_ON_LINUX = 'the engine for Windows is built on Linux: npm run packages -- win32-x64';

export async function requireTools() {
  if (process.platform === 'win32') throw new StepError(BUILT_ON_LINUX);
  const compilers = [process.env.CXX, 'c++', 'g++', 'clang++'].filter(Boolean);
  const missing = [];
  if (!(await isInstalled('git'))) missing.push('git');
  if (!(await isInstalled('cmake'))) missing.push('cmake (3.21 or newer)');
  if (!(await anyOf(compilers, isInstalled))) missing.push('a C++20 compiler (g++ 11, clang 14 or newer)');
  if (missing.length > 0)
    throw new StepError(`building the engine needs ${missing.join(', ')}: please install and run this again`);
}

/** True if a program of that name can be started. */
export async function isInstalled(program) {
  try {
    await promisify(execFile)(program, ['--version']);
    return true;
  } catch (error) {
    return error.code !== 'ENOENT';
  }
}

async function anyOf(values, test) {
  for (const value of values) if (await test(value)) return true;
  return false;
}

/** Installs the packages as npm does on another platform. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { packageName, platforms, RUNTIME } from './platforms.js';
import { startRegistry } from './registry.js';
import { run, StepError } from './run.js';

/** Returns the folder of svc-runtime, in `folder`. */
export async function installFor(platform, folder, tarballs) {
  const { os, cpu, libc } = platforms[platform];
  const registry = await startRegistry([tarballs]);
  try {
    const where = [
      '--prefix',
      folder,
      '--registry',
      registry.url,
      '--cache',
      join(folder, 'cache'),
      '--ignore-scripts',
    ];
    const target = ['--os', os, '--cpu', cpu, ...(libc === undefined ? [] : ['--libc', libc])];
    await run(`installing for ${platform}`, 'npm', ['install', ...where, ...target, RUNTIME], { cwd: folder });
  } finally {
    registry.close();
  }
  const modules = join(folder, 'node_modules');
  const found = [modules, join(modules, RUNTIME, 'node_modules')].map((each) => join(each, packageName(platform)));
  if (!found.some((each) => existsSync(each))) throw new StepError(`npm did not install ${packageName(platform)}`);
  return join(modules, RUNTIME);
}

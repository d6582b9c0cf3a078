/** The files of the daemon's service, for the commands that write, renew and remove them. */
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { loadConfig, type Config } from '../../config/config.ts';
import { makeDirectorySync } from '../../files/make-directory.ts';
import { crashFile, makePrivateDirectory, type Paths } from '../../home/paths.ts';
import { SvcError } from '../../protocol/errors.ts';
import { orElse } from '../../protocol/foreign-text.ts';
import { defineService, type ServiceDefinition } from '../../service/definition.ts';
import { startOfService } from '../../service/installed.ts';
import { serviceManager, type Manager, type ServiceFile } from '../../service/manager.ts';

export function serviceFiles(manager: Manager, paths: Paths): readonly ServiceFile[] {
  return manager.files(defineService(paths, loadConfig(paths)));
}

/** Returns null if the file does not exist. */
export function textOf(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

/** Makes the directories of the service: systemd's sandbox allows only those that exist. Throws CANNOT_WRITE. */
export function makeServiceDirectories({ writable, shared }: ServiceDefinition): void {
  for (const directory of writable) makePrivateDirectory(directory);
  // Errors are ignored: the daemon could not write in such a directory either.
  for (const directory of shared) orElse(() => makeDirectorySync(directory), undefined);
}

/** Throws CANNOT_WRITE. */
export function writeServiceFiles(files: readonly ServiceFile[]): void {
  for (const { path, text } of files) {
    try {
      makeDirectorySync(dirname(path));
      if (text === null) rmSync(path, { force: true });
      else writeFileSync(path, text);
    } catch (error) {
      throw new SvcError('CANNOT_WRITE', `cannot write ${path}: ${(error as Error).message}`, { cause: error });
    }
  }
}

/**
 * Stops the service and removes its files; resolves with their paths, empty if none is installed. Throws CANNOT_WRITE,
 * and INTERNAL if the manager refuses.
 */
export async function removeService(manager: Manager): Promise<readonly string[]> {
  const present = manager.paths.filter((path) => textOf(path) !== null);
  if (present.length === 0) return present;
  const reachable = (await manager.state()) !== null;
  if (reachable) await manager.disable();
  for (const path of present) {
    try {
      rmSync(path);
    } catch (error) {
      throw new SvcError('CANNOT_WRITE', `cannot remove ${path}: ${(error as Error).message}`, { cause: error });
    }
  }
  if (reachable) await manager.reload();
  return present;
}

/** Files of the service that runs the daemon of this home; empty if none does. */
export function serviceFilesOf(paths: Paths): readonly string[] {
  if (!['linux', 'darwin', 'win32'].includes(process.platform)) return [];
  const present = serviceManager().paths.filter((path) => textOf(path) !== null);
  const isOwn =
    process.platform === 'linux'
      ? startOfService(paths) !== undefined
      : present.some((path) => textOf(path)?.includes(crashFile(paths)));
  return isOwn ? present : [];
}

/** As `removeService`, if a service runs the daemon of this home. */
export async function removeServiceOf(paths: Paths): Promise<void> {
  if (serviceFilesOf(paths).length > 0) await removeService(serviceManager());
}

/** Makes the manager take a killed daemon of this home for stopped. Throws INTERNAL if the manager refuses. */
export async function stopServiceOf(paths: Paths): Promise<void> {
  if (serviceFilesOf(paths).length > 0) await serviceManager().stop();
}

/**
 * Before a restart of the service: makes its files and directories those of this installation and of the config. The
 * files have the program, the directories that the daemon may write in, and the HTTP address. `http`: address of the
 * running daemon. Resolves with true if that of the config differs: once the daemon has ended, `releaseAddress` must be
 * called. Throws INVALID_REQUEST for a service that svc did not install.
 */
export async function renewService(paths: Paths, config: Config, http: string | null): Promise<boolean> {
  if (startOfService(paths) === undefined) {
    const isOurs = serviceFilesOf(paths).length > 0;
    throw new SvcError('INVALID_REQUEST', 'the daemon is run by a service manager, which has to restart it', {
      hint: isOurs ? 'install it again, which restarts it: svc service install' : 'restart its service there',
    });
  }
  const manager = serviceManager();
  const definition = defineService(paths, config);
  makeServiceDirectories(definition);
  writeServiceFiles(manager.files(definition).filter(({ path, text }) => textOf(path) !== text));
  // Always, because an earlier restart may have ended between its writing and its reload.
  await manager.reload();
  return http !== definition.address;
}

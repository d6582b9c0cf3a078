/** Shared by the `svc service` commands. */
import { readFileSync } from 'node:fs';
import { loadConfig } from '../../../config/config.ts';
import type { Paths } from '../../../home/paths.ts';
import { defineService } from '../../../service/definition.ts';
import type { Manager, ServiceFile } from '../../../service/manager.ts';

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

/** Finds and loads svc.node. Called only in engine processes: libllama is never loaded into the daemon. */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { variable } from '../process/environment.ts';
import { nativePlace } from '../process/native-package.ts';
import { SvcError } from '../protocol/errors.ts';
import type { Addon } from './addon.ts';

export interface LoadedAddon {
  readonly addon: Addon;
  readonly path: string;
  /** Directory of the shared libraries and ggml's backend modules. */
  readonly directory: string;
}

/** Path of svc.node, which need not exist. Throws ENGINE_UNAVAILABLE if the package that should have it is missing. */
export function addonPath(override: string | undefined = variable('SVC_ADDON')): string {
  if (override !== undefined) return override;
  const place = nativePlace();
  if ('message' in place) throw new SvcError('ENGINE_UNAVAILABLE', place.message, { hint: place.hint });
  return join(place.folder, 'svc.node');
}

/** Throws ENGINE_UNAVAILABLE. The loaded addon throws only SvcError. */
export function loadAddon(path: string = addonPath()): LoadedAddon {
  const require = createRequire(import.meta.url);
  try {
    if (!existsSync(path)) throw new Error('not there');
    const addon = require(path) as Addon;
    addon.setErrorClass(SvcError);
    return { addon, path, directory: dirname(path) };
  } catch (error) {
    throw new SvcError(
      'ENGINE_UNAVAILABLE',
      `the native addon cannot be loaded on ${process.platform}-${process.arch} with Node ${process.versions.node} (tried ${path}: ${firstLine(error)})`,
      { hint: 'in a checkout run `npm run build`; otherwise reinstall svc-runtime' },
    );
  }
}

function firstLine(error: unknown): string {
  // Windows' messages end with \r\n.
  return (error instanceof Error ? error.message : String(error)).split('\n', 1)[0]?.trimEnd() ?? '';
}

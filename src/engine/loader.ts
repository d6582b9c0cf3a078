/** Finds and loads svc.node. Called only in engine processes: libllama is never loaded into the daemon. */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { variable } from '../process/environment.ts';
import { nativeFolders } from '../process/addon.ts';
import { SvcError } from '../protocol/errors.ts';
import type { Addon } from './addon.ts';

export interface LoadedAddon {
  readonly addon: Addon;
  readonly path: string;
  /** Directory of the shared libraries and ggml's backend modules. */
  readonly directory: string;
}

/** Possible paths of svc.node, the likeliest first. */
export function addonCandidates(override: string | undefined = variable('SVC_ADDON')): string[] {
  if (override !== undefined) return [override];
  return nativeFolders().map((folder) => join(folder, 'svc.node'));
}

/** Throws ENGINE_UNAVAILABLE that lists all paths tried. The loaded addon throws only SvcError. */
export function loadAddon(candidates: readonly string[] = addonCandidates()): LoadedAddon {
  const require = createRequire(import.meta.url);
  const tried: string[] = [];
  let broken = false;
  for (const path of candidates) {
    if (!existsSync(path)) {
      tried.push(`${path}: not there`);
      continue;
    }
    try {
      const addon = require(path) as Addon;
      addon.setErrorClass(SvcError);
      return { addon, path, directory: dirname(path) };
    } catch (error) {
      broken = true;
      tried.push(`${path}: ${firstLine(error)}`);
    }
  }
  throw new SvcError(
    'ENGINE_UNAVAILABLE',
    `the native addon cannot be loaded on ${process.platform}-${process.arch} with Node ${process.versions.node} (tried ${tried.join('; ')})`,
    {
      hint: broken
        ? 'reinstall svc-runtime; in a checkout run `npm run build`'
        : 'in a checkout run `npm run build`; otherwise reinstall svc-runtime',
    },
  );
}

function firstLine(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).split('\n', 1)[0] ?? '';
}

/**
 * The dry runs of the models' files, so that a model that comes back needs none. A figure holds for as long as
 * the file, and that of the model which drafts for it, are the same and the settings are; what a device has free it does not hold, so where there are
 * devices each load asks anew.
 */
import { statSync } from 'node:fs';
import type { NativeMemoryEstimates } from '../../engine/addon.ts';
import type { Estimate } from './fit.ts';

const MOST = 1000;

export class EstimateCache {
  readonly #kept = new Map<string, NativeMemoryEstimates>();

  /** `estimate`, asked only for what is not known. */
  of({ path }: { readonly path: string }, estimate: Estimate): Estimate {
    return async (options, contextLengths) => {
      const { draftPath } = options;
      const files = draftPath === undefined ? [path] : [path, draftPath];
      const key = JSON.stringify([files.map(versionOf), options, contextLengths]);
      const known = this.#kept.get(key);
      if (known !== undefined) return known;
      const found = await estimate(options, contextLengths);
      const isHostOnly = found.estimates.every(({ devices }) => devices.every(({ isHost }) => isHost));
      if (isHostOnly) this.#keep(key, found);
      return found;
    };
  }

  #keep(key: string, found: NativeMemoryEstimates): void {
    const [oldest] = this.#kept.keys();
    if (this.#kept.size >= MOST && oldest !== undefined) this.#kept.delete(oldest);
    this.#kept.set(key, found);
  }
}

/** A file that was written to is another one; a digest would take minutes. */
function versionOf(path: string): unknown {
  const { ino, size, mtimeMs } = statSync(path, { throwIfNoEntry: false }) ?? { ino: 0, size: 0, mtimeMs: 0 };
  return [path, ino, size, mtimeMs];
}

/**
 * Cache of memory estimates, so that reloading a model needs no dry run. An entry is valid for the same model file,
 * draft-model file, projector file, adapter files and settings. Estimates that involve devices contain their free
 * memory and are not cached.
 */
import { statSync } from 'node:fs';
import type { NativeMemoryEstimates } from '../../../engine/addon.ts';
import type { Estimate } from './fit.ts';

const MOST = 1000;

export class EstimateCache {
  readonly #kept = new Map<string, NativeMemoryEstimates>();

  /** Wraps `estimate` with the cache. */
  of({ path }: { readonly path: string }, estimate: Estimate): Estimate {
    return async (options, contextLengths) => {
      const { draft_path, projector_path, adapters = [] } = options;
      const others = [draft_path, projector_path, ...adapters.map((each) => each.path)];
      const files = [path, ...others].filter((file) => file !== undefined);
      const key = JSON.stringify([files.map(versionOf), options, contextLengths]);
      const known = this.#kept.get(key);
      if (known !== undefined) return known;
      const found = await estimate(options, contextLengths);
      const isHostOnly = found.estimates.every(({ devices }) => devices.every(({ is_host }) => is_host));
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

/** Identifies a file's content by inode, size and mtime; a digest would take minutes. */
function versionOf(path: string): unknown {
  const { ino, size, mtimeMs } = statSync(path, { throwIfNoEntry: false }) ?? { ino: 0, size: 0, mtimeMs: 0 };
  return [path, ino, size, mtimeMs];
}

/**
 * `keys-seen` in the state directory: an empty file that is there while keys.json, when a daemon last read it, held a
 * key. A keys.json that is gone although keys were seen opens no door: the data directory may not be mounted, or a
 * backup from before the first key was restored. It lies elsewhere than keys.json, so that one loss does not take both.
 */
import { closeSync, existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { makeDirectorySync } from '../files/make-directory.ts';
import { openToAppendSync } from '../files/open-file.ts';

export class KeysSeen {
  readonly #dir: string;
  readonly #file: string;

  constructor(stateDir: string) {
    this.#dir = stateDir;
    this.#file = join(stateDir, 'keys-seen');
  }

  get path(): string {
    return this.#file;
  }

  get isSet(): boolean {
    return existsSync(this.#file);
  }

  /** Throws what the file system says. */
  set(seen: boolean): void {
    if (seen === this.isSet) return;
    if (!seen) return rmSync(this.#file, { force: true });
    makeDirectorySync(this.#dir);
    closeSync(openToAppendSync(this.#file));
  }
}

/**
 * `keys-seen` in the state directory: an empty file that exists if keys.json had a key when a daemon last read it. If
 * keys.json is missing although keys were seen, all clients are refused: the data directory may not be mounted, or a
 * backup from before the first key was restored. It is in another directory than keys.json, so that one loss does not
 * affect both.
 */
import { closeSync, existsSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { makeDirectorySync } from '../files/make-directory.ts';
import { openToAppendSync } from '../files/open-file.ts';

export class KeysSeen {
  readonly path: string;

  constructor(stateDir: string) {
    this.path = join(stateDir, 'keys-seen');
  }

  get isSet(): boolean {
    return existsSync(this.path);
  }

  /** Throws the error of the file system. */
  set(seen: boolean): void {
    if (seen === this.isSet) return;
    if (!seen) return rmSync(this.path, { force: true });
    makeDirectorySync(dirname(this.path));
    closeSync(openToAppendSync(this.path));
  }
}

/**
 * Puts another kind of file in the place of a path, and puts the former one back. A daemon that recovers by itself may
 * write the path again at any moment: a rename takes the place at once, or fails and is tried again.
 */
import { existsSync, renameSync, rmSync } from 'node:fs';

const TRIES = 100;

/** `make` creates the other kind at the path that it is given. What was at `path` is at `PATH.away` then. */
export function replacePath(path: string, make: (at: string) => void): void {
  if (existsSync(path)) renameSync(path, `${path}.away`);
  make(`${path}.other`);
  takePlace(`${path}.other`, path);
}

/** Removes the other kind of file and puts the former one back, if there was one. */
export function restorePath(path: string): void {
  if (existsSync(`${path}.away`)) takePlace(`${path}.away`, path);
  else rmSync(path, { recursive: true, force: true });
}

function takePlace(from: string, path: string): void {
  for (let left = TRIES; ; left -= 1) {
    rmSync(path, { recursive: true, force: true });
    try {
      renameSync(from, path);
      return;
    } catch (error) {
      if (left === 0) throw error;
    }
  }
}

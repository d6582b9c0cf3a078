/** Mounts a file system under a folder that can be made full or read-only at any time. Linux only, as root. */
import { appendFileSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { canMount, mountMemoryDisk, remount, unmount } from '../support/memory-disk.ts';
import type { Scene } from './scene.ts';

/** Large enough for svc; tmpfs uses memory only for written data. */
const ROOMY = 'size=2g';
const FULL = 'size=64k';

export interface Disk {
  /** Fills the disk completely. */
  fill(): void;
  /** Frees the space again. */
  free(): void;
  readOnly(): void;
  writable(): void;
}

/** Mounts the disk until the scene closes. REQUIRES: `noDisk()` is undefined. */
export function mountDisk(scene: Scene, folder: string): Disk {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  mountMemoryDisk(folder, `${ROOMY},mode=700`);
  scene.onClose(() => unmount(folder));
  const ballast = join(folder, 'ballast');
  return {
    fill: () => {
      remount(folder, FULL);
      for (let piece = 4096; piece >= 1;) {
        try {
          appendFileSync(ballast, Buffer.alloc(piece));
        } catch {
          piece /= 2;
        }
      }
    },
    free: () => {
      rmSync(ballast);
      remount(folder, ROOMY);
    },
    readOnly: () => remount(folder, 'ro'),
    writable: () => remount(folder, 'rw'),
  };
}

/** Reason why no file system can be mounted on this machine; undefined if it can. */
export function noDisk(): string | undefined {
  return canMount() ? undefined : 'needs Linux, and the right to mount a file system';
}

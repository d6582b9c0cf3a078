/** Mounts a file system under a folder that can be made full or read-only at any time. Linux only, as root. */
import { execFileSync } from 'node:child_process';
import { appendFileSync, mkdirSync, mkdtempSync, rmdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
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
  execFileSync('mount', ['-t', 'tmpfs', '-o', `${ROOMY},mode=700`, 'tmpfs', folder]);
  scene.onClose(() => void execFileSync('umount', [folder]));
  const remount = (options: string): void => void execFileSync('mount', ['-o', `remount,${options}`, folder]);
  const ballast = join(folder, 'ballast');
  return {
    fill: () => {
      remount(FULL);
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
      remount(ROOMY);
    },
    readOnly: () => remount('ro'),
    writable: () => remount('rw'),
  };
}

/** Reason why no file system can be mounted on this machine; undefined if it can. */
export function noDisk(): string | undefined {
  const reason = 'needs Linux, and the right to mount a file system';
  if (process.platform !== 'linux') return reason;
  const folder = mkdtempSync(join(tmpdir(), 'svc-disk-'));
  try {
    execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', folder], { stdio: 'ignore' });
    execFileSync('umount', [folder], { stdio: 'ignore' });
    return undefined;
  } catch {
    return reason;
  } finally {
    rmdirSync(folder);
  }
}

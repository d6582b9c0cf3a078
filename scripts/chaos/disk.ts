/** A file system of its own under a folder, which can be full or read-only at any moment. Linux, as root. */
import { execFileSync } from 'node:child_process';
import { appendFileSync, mkdirSync, mkdtempSync, rmdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Scene } from './scene.ts';

/** Nothing of it is taken before it is written; svc finds enough free. */
const ROOMY = 'size=2g';
const FULL = 'size=64k';

export interface Disk {
  /** Not one more byte can be written. */
  fill(): void;
  /** There is room again. */
  free(): void;
  readOnly(): void;
  writable(): void;
}

/** REQUIRES: `noDisk` is undefined. It is there until the scene closes. */
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

/** Why there can be no such file system here; undefined: there can. */
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

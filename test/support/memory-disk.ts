/** File systems in memory, for disks that are small, full or read-only. Linux only, as root. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { waitFor } from './wait.ts';

/** Whether this user may mount one here. */
export function canMount(): boolean {
  if (process.platform !== 'linux') return false;
  const folder = mkdtempSync(join(tmpdir(), 'svc-disk-'));
  try {
    mountMemoryDisk(folder, 'size=4k');
    execFileSync('umount', [folder]); // nothing has used it
    return true;
  } catch {
    return false;
  } finally {
    rmdirSync(folder);
  }
}

/** Mounts one over a folder. Throws where this user may not. `options` are those of tmpfs, such as `size=64k`. */
export function mountMemoryDisk(folder: string, options: string): void {
  execFileSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', folder], { stdio: 'pipe' });
}

export function remount(folder: string, options: string): void {
  execFileSync('mount', ['-o', `remount,${options}`, folder], { stdio: 'pipe' });
}

/** Resolves once nothing is mounted there. A killed process holds its files a little longer than it seems to live. */
export async function unmount(folder: string): Promise<void> {
  await waitFor(`${folder} to be unmounted`, () => {
    execFileSync('umount', [folder], { stdio: 'pipe' });
    return true;
  });
}

/** Reads a file of another process under /proc. */
import { readFileSync } from 'node:fs';

/** Returns '' on EACCES: files of a non-dumpable process are readable only by root. */
export function seenOf(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${String(pid)}/${file}`, 'latin1');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EACCES') return '';
    throw error;
  }
}

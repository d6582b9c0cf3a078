/** What others can see of a process under /proc. */
import { readFileSync } from 'node:fs';

/** Empty where it is kept from us: of a process that is not dumpable only root sees all. */
export function seenOf(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${String(pid)}/${file}`, 'latin1');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EACCES') return '';
    throw error;
  }
}

/** Finds processes by a variable in their environment, however indirectly they were started. */
import { readdir, readFile } from 'node:fs/promises';

/** Works only on Linux, where the environment of a process can be read; returns none elsewhere. */
export async function processesWith(variable, value) {
  if (process.platform !== 'linux') return [];
  const found = [];
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
    try {
      const environment = await readFile(`/proc/${pid}/environ`, 'latin1');
      if (!`\0${environment}\0`.includes(`\0${variable}=${value}\0`)) continue;
      const command = (await readFile(`/proc/${pid}/cmdline`, 'utf8')).replaceAll('\0', ' ').trim();
      found.push({ pid: Number(pid), command });
    } catch {
      // The process has ended or belongs to another user.
    }
  }
  return found;
}

export function killQuietly(pid) {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // The process has already ended.
  }
}

/**
 * Identity of a process with a recorded pid. Pids are reused: the boot id and the start time since boot distinguish two
 * processes with the same pid. Linux only; null elsewhere.
 */
import { readFileSync } from 'node:fs';

export interface ProcessIdentity {
  readonly boot_id: string;
  /** Hundredths of a second from the boot to the start of the process. */
  readonly start_ticks: number;
}

/** Returns the identity of a process. null: it does not run, or the system has no such data. */
export function identifyProcess(pid: number): ProcessIdentity | null {
  const boot_id = bootId();
  if (boot_id === null) return null;
  try {
    const stat = readFileSync(`/proc/${String(pid)}/stat`, 'utf8');
    // The name in parentheses may hold anything; after it come the state, and starttime as the 20th field.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    // A zombie counts as ended (a container without an init does not reap it).
    if (/^[ZX]/.test(fields[0] ?? '')) return null;
    return { boot_id, start_ticks: Number(fields[19]) };
  } catch {
    return null;
  }
}

/** True if the recorded process is alive. False also if that is unknown. */
export function isAlive(pid: number, recorded: ProcessIdentity): boolean {
  const now = identifyProcess(pid);
  return now?.boot_id === recorded.boot_id && now.start_ticks === recorded.start_ticks;
}

/** Id of the current boot. null: the system has none. */
export function bootId(): string | null {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return null;
  }
}

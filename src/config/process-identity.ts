/**
 * Which process a recorded pid meant. Pids are given again: what tells two processes of one pid apart
 * is when they started, counted from the boot, and which boot that was. Linux only; elsewhere null.
 */
import { readFileSync } from 'node:fs';
import * as v from 'valibot';

export const ProcessIdentitySchema = v.object({
  boot_id: v.string(),
  /** Hundredths of a second from the boot to the start of the process. */
  start_ticks: v.number(),
});
export type ProcessIdentity = v.InferOutput<typeof ProcessIdentitySchema>;

/** null: no such process lives, or this system does not tell. */
export function identifyProcess(pid: number): ProcessIdentity | null {
  const boot_id = bootId();
  if (boot_id === null) return null;
  try {
    const stat = readFileSync(`/proc/${String(pid)}/stat`, 'utf8');
    // The name in parentheses may hold anything; after it come the state, and starttime as the 20th field.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    // Ended, though nobody has waited for it (a container without an init).
    if (/^[ZX]/.test(fields[0] ?? '')) return null;
    return { boot_id, start_ticks: Number(fields[19]) };
  } catch {
    return null;
  }
}

/** false also where it cannot be told. */
export function isAlive(pid: number, recorded: ProcessIdentity): boolean {
  const now = identifyProcess(pid);
  return now?.boot_id === recorded.boot_id && now.start_ticks === recorded.start_ticks;
}

/** Another one after every boot. null: this system has none. */
export function bootId(): string | null {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return null;
  }
}

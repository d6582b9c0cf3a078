/** What the daemon asks of the kernel for itself. */
import type { Logger } from '../log/log.ts';
import { loadProcessAddon, type ProcessAddon } from '../process/addon.ts';

/**
 * Keeps what is in the daemon's memory, prompts and keys, from core files and from other processes of this user.
 * null: process.node does not load; the daemon works without it, and the log says why.
 */
export function protectMemory(log: Logger): ProcessAddon | null {
  try {
    const addon = loadProcessAddon();
    addon.forbidCoreDumps();
    return addon;
  } catch (error) {
    log.warn({ err: error }, 'process.node cannot be loaded: a crash of the daemon may leave a core file');
    return null;
  }
}

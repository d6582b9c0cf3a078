/** Kernel settings of the daemon's own process. */
import type { Logger } from '../log/log.ts';
import { loadProcessAddon, type ProcessAddon } from '../process/addon.ts';

/**
 * Keeps the daemon's memory (prompts, keys) out of core files and away from other processes of this user.
 * Returns null if process.node cannot be loaded; the daemon works without it, and the log has the reason.
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

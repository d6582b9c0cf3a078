/** Work that no caller awaits: an error ends that work, never the daemon. */
import type { Logger } from '../log/log.ts';

/** `what` completes "… failed" in the log. */
export function inBackground(log: Logger, what: string, work: Promise<unknown>): void {
  work.catch((error: unknown) => log.error({ err: error }, `${what} failed`));
}

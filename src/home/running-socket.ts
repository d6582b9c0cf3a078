/**
 * Finds the control socket of the daemon that runs in this home. The daemon may have been started with other variables:
 * cron, `sudo` and `su` have no XDG_RUNTIME_DIR, on which the path of the socket depends.
 *
 * Every command does this, so daemon.json is read here without its schema, whose library takes longer to load.
 */
import { existsSync } from 'node:fs';
import { readTextSync } from '../files/open-file.ts';
import { isAlive, type ProcessIdentity } from '../process/process-identity.ts';
import { orElse, parsedJson } from '../protocol/foreign-text.ts';

/** What is read of a daemon.json, which may hold anything. */
interface Recorded {
  readonly exit?: unknown;
  readonly socket?: unknown;
  readonly pid?: unknown;
  readonly process?: ProcessIdentity | null;
}

/** Returns undefined if no daemon runs. Where processes cannot be identified, a daemon that crashed counts as running. */
export function runningSocket(daemonFile: string): string | undefined {
  const recorded = parsedJson(orElse(() => readTextSync(daemonFile), '')) as Recorded | null | undefined;
  const { exit, socket, pid, process: identity = null } = recorded ?? {};
  if (exit !== null || typeof socket !== 'string') return undefined;
  const lives = identity === null ? existsSync(socket) : isAlive(Number(pid), identity);
  return lives ? socket : undefined;
}

/**
 * Listening sockets inherited from a service manager, as in sd_listen_fds(3): LISTEN_FDS sockets, from descriptor 3
 * on, for the process LISTEN_PID, named by LISTEN_FDNAMES.
 */
import { takeVariable } from '../process/environment.ts';
import type { Logger } from '../log/log.ts';

/** Descriptors of listening sockets. */
export interface InheritedSockets {
  readonly http?: number;
  readonly control?: number;
}

const FIRST_DESCRIPTOR = 3;

/** Returns the sockets and removes the variables, so that engine processes do not see them. Call once. */
export function takeInheritedSockets(log: Logger): InheritedSockets {
  const pid = takeVariable('LISTEN_PID');
  const count = Number(takeVariable('LISTEN_FDS') ?? 0);
  const names = (takeVariable('LISTEN_FDNAMES') ?? '').split(':');
  if (pid !== String(process.pid)) return {};
  const sockets: { http?: number; control?: number } = {};
  for (let index = 0; index < count; index++) {
    const name = names[index] ?? '';
    if (name === 'http' || name === 'control') sockets[name] = FIRST_DESCRIPTOR + index;
    else log.warn({ name }, 'ignoring an inherited socket: its name is neither http nor control');
  }
  return sockets;
}

/**
 * Sockets that a service manager has bound for us and passes on, by the convention of sd_listen_fds:
 * LISTEN_FDS of them, from descriptor 3 on, for the process LISTEN_PID, named by LISTEN_FDNAMES.
 */
import { takeVariable } from '../config/environment.ts';
import type { Logger } from '../log/log.ts';

/** Descriptors of listening sockets. */
export interface InheritedSockets {
  readonly http?: number;
  readonly control?: number;
}

const FIRST_DESCRIPTOR = 3;

/** Once: engine processes must not take the variables for theirs. */
export function takeInheritedSockets(log: Logger): InheritedSockets {
  const pid = takeVariable('LISTEN_PID');
  const count = Number(takeVariable('LISTEN_FDS') ?? 0);
  const names = (takeVariable('LISTEN_FDNAMES') ?? '').split(':');
  if (pid !== String(process.pid)) return {};
  const sockets: { http?: number; control?: number } = {};
  for (let index = 0; index < count; index++) {
    const name = names[index] ?? '';
    if (name === 'http' || name === 'control') sockets[name] = FIRST_DESCRIPTOR + index;
    else log.warn({ name }, 'a socket was passed on that is named neither http nor control: it is not used');
  }
  return sockets;
}

/** Errors shared by the control socket, HTTP and gRPC clients. */
import { SvcError } from '../protocol/errors.ts';

export function notRunning(): SvcError {
  return new SvcError('DAEMON_NOT_RUNNING', 'the daemon is not running', { hint: 'start it with `svc start`' });
}

/** Error for a missing or unknown key in SVC_API_KEY. */
export function keyNeeded(message: string): SvcError {
  return new SvcError('UNAUTHORIZED', message, {
    hint: 'set SVC_API_KEY to a key of this daemon, or use the control socket: svc health --source socket',
  });
}

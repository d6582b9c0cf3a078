/** What every way of asking the daemon may end with: the socket, HTTP and gRPC. */
import { SvcError } from '../protocol/errors.ts';

export function notRunning(): SvcError {
  return new SvcError('DAEMON_NOT_RUNNING', 'the daemon is not running', { hint: 'start it with `svc start`' });
}

/** For a person whose SVC_API_KEY holds no key that is known. */
export function keyNeeded(message: string): SvcError {
  return new SvcError('UNAUTHORIZED', message, {
    hint: 'set SVC_API_KEY to a key of this daemon, or ask without one: svc health --source socket',
  });
}

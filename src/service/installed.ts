/** Whether the daemon of a control socket is the business of a service manager. */
import { readFileSync } from 'node:fs';
import type { Paths } from '../config/paths.ts';
import { SERVICE_UNIT, servesSocket, unitPath } from './systemd-unit.ts';

/**
 * The command that starts the service of this home; undefined: there is none. With systemd its socket
 * holds the HTTP address even while the daemon is stopped, so that nobody else could start one. With
 * launchd anybody may.
 */
export function startOfService({ socketPath }: Pick<Paths, 'socketPath'>): readonly string[] | undefined {
  if (process.platform !== 'linux') return undefined;
  try {
    const unit = readFileSync(unitPath(SERVICE_UNIT), 'utf8');
    return servesSocket(unit, socketPath) ? ['systemctl', '--user', 'start', SERVICE_UNIT] : undefined;
  } catch {
    return undefined;
  }
}

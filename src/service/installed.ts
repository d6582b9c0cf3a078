/** Finds out if a service manager runs the daemon of a control socket. */
import { readFileSync } from 'node:fs';
import type { Paths } from '../home/paths.ts';
import { SERVICE_UNIT, servesSocket, unitPath } from './systemd-unit.ts';
import { orElse } from '../protocol/foreign-text.ts';

/**
 * Returns the command that starts the service of this home; undefined: there is none. With systemd the socket unit
 * holds the HTTP address even while the daemon is stopped, so a daemon started otherwise could not bind it. With
 * launchd it could.
 */
export function startOfService({ socketPath }: Pick<Paths, 'socketPath'>): readonly string[] | undefined {
  if (process.platform !== 'linux') return undefined;
  const unit = orElse(() => readFileSync(unitPath(SERVICE_UNIT), 'utf8'), '');
  return servesSocket(unit, socketPath) ? ['systemctl', '--user', 'start', SERVICE_UNIT] : undefined;
}

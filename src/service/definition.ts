/** What a service manager is told about the daemon, whichever manager it is. */
import { realpathSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Config } from '../config/config.ts';
import { SERVICE_VARIABLES, variable } from '../config/environment.ts';
import type { Paths } from '../config/paths.ts';

export interface ServiceDefinition {
  /** Program and arguments. */
  readonly command: readonly string[];
  /** Of the daemon, beyond what the manager gives to everything. */
  readonly environment: Readonly<Record<string, string>>;
  /** Directories in which the daemon writes. */
  readonly writable: readonly string[];
  /** The control socket of the daemon: what tells whose service it is. */
  readonly socket: string;
  /** Of HTTP, `host:port`; null: any free port, which no manager can bind beforehand. */
  readonly address: string | null;
  /** For what is written to standard error before the log is open, where the manager does not keep it. */
  readonly errorLog: string;
}

/** `src/service` and `dist/service` are equally deep. */
const ENTRY = fileURLToPath(new URL('../../bin/svc.js', import.meta.url));

/** As the person's own environment says now: a manager's has none of their variables. */
export function defineService(paths: Paths, config: Config): ServiceDefinition {
  const { host, port } = config.http;
  const set = SERVICE_VARIABLES.flatMap((name): [string, string][] => {
    const value = variable(name);
    return value === undefined ? [] : [[name, value]];
  });
  return {
    command: [process.execPath, realpathSync(ENTRY), 'serve', '--mode', 'service'],
    environment: Object.fromEntries(set),
    writable: [
      ...new Set([
        paths.dataDir,
        config.models.dir ?? paths.modelsDir,
        paths.stateDir,
        paths.cacheDir,
        paths.runtimeDir,
      ]),
    ],
    socket: paths.socketPath,
    address: port === 0 ? null : `${host.includes(':') ? `[${host}]` : host}:${String(port)}`,
    errorLog: `${paths.stateDir}/daemon.stderr`,
  };
}

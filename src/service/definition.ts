/** Definition of the daemon's service, independent of the service manager. */
import { realpathSync } from 'node:fs';
import { isIP } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname } from 'node:path';
import type { Config } from '../config/config.ts';
import { SERVICE_VARIABLES, variable } from '../process/environment.ts';
import { installedCommand } from '../process/own-program.ts';
import { crashFile, type Paths } from '../home/paths.ts';
import { orElse } from '../protocol/foreign-text.ts';

export interface ServiceDefinition {
  /** Program and arguments. */
  readonly command: readonly string[];
  /** Variables of the daemon, besides those that the manager sets. */
  readonly environment: Readonly<Record<string, string>>;
  /** Directories of svc, in which the daemon writes. */
  readonly writable: readonly string[];
  /**
   * Directories of the config, of the control socket, and of the models if the config chooses it. The daemon writes there
   * too, but others may own them or have access.
   */
  readonly shared: readonly string[];
  /** The control socket of the daemon, which identifies the service's home. */
  readonly socket: string;
  /** HTTP address, `IP:port`; null: no manager can bind it in advance. */
  readonly address: string | null;
  /** File for standard error before the log is open, if the manager does not keep it. */
  readonly errorLog: string;
}

/** Returns the definition, with variables from the user's current environment: a manager does not have them. */
export function defineService(paths: Paths, config: Config): ServiceDefinition {
  const { host, port } = config.http;
  const { dir } = config.models;
  const set = SERVICE_VARIABLES.flatMap((name): [string, string][] => {
    const value = variable(name);
    return value === undefined ? [] : [[name, value]];
  });
  return {
    command: [...installedCommand(), 'serve', '--mode', 'service'],
    environment: Object.fromEntries(set),
    writable: [
      ...new Set([
        paths.dataDir,
        ...(dir === undefined ? [paths.modelsDir] : []),
        paths.stateDir,
        paths.cacheDir,
        paths.runtimeDir,
      ]),
    ],
    shared: [...sharedDirectories(paths), ...(dir === undefined ? [] : [dir])],
    socket: paths.socketPath,
    address: bindable(host, port) ? `${host.includes(':') ? `[${host}]` : host}:${String(port)}` : null,
    errorLog: crashFile(paths),
  };
}

/** True for a fixed port of an IP address: systemd takes neither a name nor an interface (`fe80::1%eth0`). */
function bindable(host: string, port: number): boolean {
  return port !== 0 && isIP(host) !== 0 && !host.includes('%');
}

function sharedDirectories({ configFile, socketPath, runtimeDir }: Paths): string[] {
  // A config that is a link is replaced where it really is.
  const config = [configFile, orElse(() => realpathSync(configFile), configFile)].map((file) => dirname(file));
  const socket = dirname(socketPath);
  // Directories that are cleared at boot. A subdirectory may be missing when the service starts, so the parent is
  // listed.
  const emptied = [variable('XDG_RUNTIME_DIR'), tmpdir()].find((each) => socket.startsWith(`${String(each)}/`));
  return [...new Set([...config, ...(socket === runtimeDir ? [] : [emptied ?? socket])])];
}

/**
 * All paths of svc: XDG on Linux and other Unixes, the native conventions on macOS and Windows, or everything under
 * $SVC_HOME. `pathsFrom` only computes; `makePrivateDirectory` creates.
 */
import { createHash } from 'node:crypto';
import { chmodSync, lstatSync, readdirSync } from 'node:fs';
import { homedir, tmpdir, userInfo } from 'node:os';
import path from 'node:path';
import { makeDirectorySync } from '../files/make-directory.ts';
import { spaceHintOf, whyOf } from '../files/why.ts';
import { SvcError } from '../protocol/errors.ts';
import { variable, type Variable } from '../process/environment.ts';
import { checkHome } from './home.ts';
import { runningSocket } from './running-socket.ts';

export interface Paths {
  readonly configFile: string;
  /** The default folder of models; `models.dir` in the config overrides it. */
  readonly modelsDir: string;
  readonly dataDir: string;
  /** The API keys' digests. */
  readonly keyFile: string;
  /** The keys of providers. */
  readonly credentialsFile: string;
  readonly stateDir: string;
  readonly cacheDir: string;
  /** Private to the user (0700); holds the control socket. */
  readonly runtimeDir: string;
  /** A Unix socket; on Windows a named pipe. */
  readonly socketPath: string;
  /** Facts about the running daemon, or how the last one ended. */
  readonly daemonFile: string;
  readonly logFile: string;
}

/** Inputs of the paths; tests pass their own. */
export interface Surroundings {
  readonly platform: NodeJS.Platform;
  readonly home: string;
  readonly tmp: string;
  /** Numeric on Unix, the name on Windows. */
  readonly user: string;
  variable(name: Variable): string | undefined;
}

interface Bases {
  readonly config: string;
  readonly data: string;
  readonly models: string;
  readonly state: string;
  readonly cache: string;
  readonly log: string;
  readonly run: string;
}

/**
 * The paths of this process; without SVC_SOCKET, with the control socket of the daemon that runs in this home. Throws as
 * `ownPaths`.
 */
export function resolvePaths(): Paths {
  const paths = ownPaths();
  if (variable('SVC_SOCKET') !== undefined) return paths;
  return { ...paths, socketPath: runningSocket(paths.daemonFile) ?? paths.socketPath };
}

/**
 * The paths of this process as its variables give them, for a new daemon. Throws CONFIG_INVALID when a configured path
 * cannot be used, CANNOT_WRITE when SVC_HOME cannot be created.
 */
export function ownPaths(): Paths {
  const from = thisMachine();
  const paths = pathsFrom(from);
  const home = absolute(from, 'SVC_HOME');
  if (home !== undefined) checkHome(home);
  return paths;
}

/** Computes the paths without file-system access. Throws CONFIG_INVALID. */
export function pathsFrom(from: Surroundings): Paths {
  const { join } = pathRules(from);
  const bases = resolveBases(from);
  const socketPath = absolute(from, 'SVC_SOCKET') ?? defaultSocket(from, bases.run);
  checkSocketPath(socketPath, from.platform);
  return {
    configFile: absolute(from, 'SVC_CONFIG') ?? join(bases.config, 'config.json'),
    modelsDir: bases.models,
    dataDir: bases.data,
    keyFile: join(bases.data, 'keys.json'),
    credentialsFile: join(bases.data, 'credentials.json'),
    stateDir: bases.state,
    cacheDir: bases.cache,
    runtimeDir: bases.run,
    socketPath,
    daemonFile: join(bases.state, 'daemon.json'),
    logFile: join(bases.log, 'daemon.log'),
  };
}

/** Standard error of daemons in the background: empty unless one crashed. */
export function crashFile({ stateDir }: Pick<Paths, 'stateDir'>): string {
  return path.join(stateDir, 'daemon.stderr');
}

/** What loads have found models able to do (models/store/tried.ts). */
export function capabilitiesFile({ stateDir }: Pick<Paths, 'stateDir'>): string {
  return path.join(stateDir, 'capabilities.json');
}

/** Kept conversations (home/conversations.ts). */
export function historyFolder({ dataDir }: Pick<Paths, 'dataDir'>): string {
  return path.join(dataDir, 'history');
}

/** Stored responses of OpenAI's Responses API (responses/response-store.ts). */
export function responsesFolder({ stateDir }: Pick<Paths, 'stateDir'>): string {
  return path.join(stateDir, 'responses');
}

/**
 * Creates `directory`, or takes an existing one, and makes it accessible to this user only.
 * Throws CONFIG_INVALID when it is a link, not a directory, or belongs to another user; with `isOurs`, also when others
 * have access and it has entries, none of them svc's: closing it would break another program.
 */
export function makePrivateDirectory(directory: string, isOurs: (name: string) => boolean = () => true): void {
  try {
    makeDirectorySync(directory);
    if (process.platform === 'win32') return;
    const found = lstatSync(directory);
    if (!found.isDirectory()) throw unsafe(directory, 'it is not a directory');
    if (found.uid !== process.getuid?.()) throw unsafe(directory, `it belongs to user ${String(found.uid)}`);
    if ((found.mode & 0o077) === 0) return;
    const names = readdirSync(directory);
    if (names.length > 0 && !names.some(isOurs)) {
      const hint = `if only svc is to use it: chmod 700 ${directory}; otherwise set SVC_HOME or SVC_SOCKET to another place`;
      throw unsafe(directory, 'it has files of other programs, and other users have access', hint);
    }
    chmodSync(directory, 0o700);
  } catch (error) {
    if (error instanceof SvcError) throw error;
    throw new SvcError('CANNOT_WRITE', `cannot create ${directory}: ${whyOf(error)}`, {
      hint: spaceHintOf(error) ?? 'make it writable, or set SVC_HOME to a directory that is',
      cause: error,
    });
  }
}

function unsafe(
  directory: string,
  why: string,
  hint = 'remove it, or set SVC_HOME or SVC_SOCKET to another place',
): SvcError {
  return new SvcError('CONFIG_INVALID', `${directory} is not safe to use: ${why}`, { hint });
}

/** Size of `sun_path` without its final zero. A longer path would be truncated silently. */
const SOCKET_PATH_BYTES = { darwin: 103, other: 107 } as const;

function checkSocketPath(socketPath: string, platform: NodeJS.Platform): void {
  if (platform === 'win32') return;
  const limit = SOCKET_PATH_BYTES[platform === 'darwin' ? 'darwin' : 'other'];
  const length = Buffer.byteLength(socketPath);
  if (length <= limit) return;
  throw new SvcError(
    'CONFIG_INVALID',
    `the path of the control socket has ${String(length)} bytes, this system allows ${String(limit)}: ${socketPath}`,
    { hint: 'set SVC_SOCKET to a shorter path, for example /tmp/svc-$USER/svc.sock' },
  );
}

function resolveBases(from: Surroundings): Bases {
  const { join } = pathRules(from);
  const home = absolute(from, 'SVC_HOME');
  if (home !== undefined) {
    return {
      config: join(home, 'config'),
      data: join(home, 'data'),
      models: join(home, 'models'),
      state: join(home, 'state'),
      cache: join(home, 'cache'),
      log: join(home, 'state'),
      run: join(home, 'run'),
    };
  }
  const standard = standardBases(from);
  return { ...standard, models: join(standard.data, 'models') };
}

function standardBases(from: Surroundings): Omit<Bases, 'models'> {
  const { join, isAbsolute } = pathRules(from);
  const base = (name: Variable, fallback: string): string => {
    const value = from.variable(name);
    return value !== undefined && isAbsolute(value) ? value : fallback;
  };
  const scratch = join(from.tmp, `svc-${from.user}`);

  if (from.platform === 'win32') {
    const local = join(base('LOCALAPPDATA', join(from.home, 'AppData', 'Local')), 'svc');
    return {
      config: join(base('APPDATA', join(from.home, 'AppData', 'Roaming')), 'svc'),
      data: join(local, 'Data'),
      state: join(local, 'State'),
      cache: join(local, 'Cache'),
      log: join(local, 'Log'),
      run: join(local, 'Run'),
    };
  }
  if (from.platform === 'darwin') {
    const library = join(from.home, 'Library');
    const support = join(library, 'Application Support', 'svc');
    return {
      config: support,
      data: support,
      state: join(support, 'state'),
      cache: join(library, 'Caches', 'svc'),
      log: join(library, 'Logs', 'svc'),
      run: scratch,
    };
  }
  const state = join(base('XDG_STATE_HOME', join(from.home, '.local', 'state')), 'svc');
  const runtime = base('XDG_RUNTIME_DIR', '');
  return {
    config: join(base('XDG_CONFIG_HOME', join(from.home, '.config')), 'svc'),
    data: join(base('XDG_DATA_HOME', join(from.home, '.local', 'share')), 'svc'),
    state,
    cache: join(base('XDG_CACHE_HOME', join(from.home, '.cache')), 'svc'),
    log: state,
    run: runtime === '' ? scratch : join(runtime, 'svc'),
  };
}

function defaultSocket(from: Surroundings, runtimeDir: string): string {
  if (from.platform !== 'win32') return pathRules(from).join(runtimeDir, 'svc.sock');
  const digest = createHash('sha256').update(runtimeDir.toLowerCase()).digest('hex').slice(0, 16);
  return `\\\\.\\pipe\\svc-${digest}`;
}

/** A path from a variable. It must be absolute, since the daemon does not run in the user's working directory. */
function absolute(from: Surroundings, name: Variable): string | undefined {
  const value = from.variable(name);
  if (value === undefined) return undefined;
  if (pathRules(from).isAbsolute(value)) return value;
  throw new SvcError('CONFIG_INVALID', `${name} must be an absolute path, not ${value}`, {
    hint: `for example ${name}="$PWD/${value}"`,
  });
}

function pathRules(from: Surroundings): path.PlatformPath {
  return from.platform === 'win32' ? path.win32 : path.posix;
}

/**
 * Throws CONFIG_INVALID if HOME is not absolute, as that would be another home in each working directory; or if there
 * is neither HOME nor an entry in /etc/passwd, as for some users of containers.
 */
function homeOfUser(): string {
  const hint = 'set HOME, or SVC_HOME to a directory for everything of svc';
  let home: string;
  try {
    home = homedir();
  } catch (error) {
    throw new SvcError('CONFIG_INVALID', 'this user has no home directory', { hint, cause: error });
  }
  if (path.isAbsolute(home)) return home;
  const what = home === '' ? 'HOME is empty' : `HOME must be an absolute path, not ${home}`;
  throw new SvcError('CONFIG_INVALID', what, { hint });
}

function thisMachine(): Surroundings {
  return {
    platform: process.platform,
    get home() {
      return homeOfUser();
    },
    tmp: tmpdir(),
    user: String(process.getuid?.() ?? userInfo().username),
    variable,
  };
}

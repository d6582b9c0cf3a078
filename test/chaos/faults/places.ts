/** Directories and files replaced by another kind of file, or made inaccessible, while the daemon runs. */
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { given } from '../../../src/protocol/given.ts';
import { replacePath, restorePath } from '../../support/replace-path.ts';
import { conditionTurns } from '../conditions.ts';
import { must, type Fault } from '../fault.ts';
import { waitFor } from '../wait.ts';
import { startInShell } from '../shell.ts';
import type { Scene } from '../scene.ts';

/** Ways to make a directory, or a file, unusable; each returns a function that repairs it. */
const SPOIL = {
  failing: (path: string, scene: Scene): (() => void) => {
    writeFileSync(failingDisk(scene).control, path);
    return () => rmSync(failingDisk(scene).control);
  },
  file: (directory: string): (() => void) => {
    replacePath(directory, (at) => writeFileSync(at, 'not a directory'));
    return () => restorePath(directory);
  },
  loop: (directory: string): (() => void) => {
    replacePath(directory, (at) => symlinkSync(directory, at));
    return () => restorePath(directory);
  },
  closed: (path: string): (() => void) => {
    const { mode } = statSync(path);
    chmodSync(path, 0);
    return () => chmodSync(path, mode);
  },
  FIFO: (file: string): (() => void) => {
    replacePath(file, (at) => execFileSync('mkfifo', [at]));
    return () => restorePath(file);
  },
  directory: (file: string): (() => void) => {
    replacePath(file, mkdirSync);
    return () => restorePath(file);
  },
} as const;

const PLANTED = {
  file: 'a file in its place (ENOTDIR)',
  loop: 'a link to itself in its place (ELOOP)',
  closed: '`chmod 000` of it under a daemon without capabilities (EACCES)',
  failing: 'every call of the daemon on its files fails, as on a broken disk (EIO)',
  FIFO: 'a FIFO in its place',
  directory: 'a directory in its place',
} as const;

const SHOWN = {
  file: 'a file in its place',
  loop: 'a link to itself',
  closed: 'no access',
  failing: 'a broken disk',
  FIFO: 'a FIFO in its place',
  directory: 'a directory in its place',
} as const;

type Kind = keyof typeof SPOIL;

interface Place {
  readonly directory: string;
  readonly kinds: readonly Kind[];
  /** Condition that reports the fault. */
  readonly condition: string;
  readonly reports?: Reports;
  readonly mayFail?: readonly string[];
}

/** Parts of the condition's reason that the fault must bring; absent: the reason comes as a whole. */
type Reports = (kind: Kind) => readonly string[];

/** Each is found when the daemon writes to the file: a failing disk fails that of an open file, too. */
const LOG_WRITE = 'cannot write the log: ';
const LEDGER_WRITE = 'cannot write the usage ledger: ';

const PLACES: readonly Place[] = [
  {
    directory: 'state',
    kinds: ['file', 'loop', 'closed', 'failing'],
    condition: 'storage',
    reports: (kind) => [
      ...['the state directory ', 'the log ', 'the usage ledger ', 'the daemon file ', LOG_WRITE],
      ...(kind === 'failing' ? [LEDGER_WRITE] : []),
    ],
  },
  { directory: 'run', kinds: ['file', 'loop', 'closed', 'failing'], condition: 'listeners' },
  // Keys that cannot be read admit no client.
  {
    directory: 'data',
    kinds: ['file', 'loop', 'closed', 'failing'],
    condition: 'storage',
    reports: () => ['the data directory ', "the file of the providers' keys "],
    mayFail: ['invalid_api_key'],
  },
  // Model names cannot be resolved.
  {
    directory: 'models',
    kinds: ['file', 'loop', 'closed', 'failing'],
    condition: 'model_store',
    mayFail: ['config_invalid'],
  },
  { directory: 'cache', kinds: ['file', 'loop', 'closed', 'failing'], condition: 'storage' },
  {
    directory: 'config',
    kinds: ['file', 'loop', 'closed', 'failing'],
    condition: 'storage',
    reports: () => ['the config directory ', 'the config file '],
  },
];

const MENDED = 'put back; svc finds it by itself';

const SHIM = fileURLToPath(new URL('../failing-disk.c', import.meta.url));

/** Where a fault of kind `failing` has its compiled shim and the file that turns it on. */
function failingDisk(scene: Scene): { library: string; control: string } {
  return { library: scene.path('failing-disk.so'), control: scene.path('failing-disk') };
}

/** Reason why a daemon cannot be started in the state that a kind of fault needs; undefined if it can. */
const CANNOT: Partial<Record<Kind, () => string | undefined>> = {
  closed: cannotBeClosed,
  failing: () =>
    process.platform !== 'linux' || spawnSync('cc', ['--version'], { stdio: 'ignore' }).status !== 0
      ? 'needs Linux and a C compiler'
      : undefined,
};

/** Starts the daemon in the state that a kind of fault needs. */
const START: Partial<Record<Kind, (scene: Scene) => Promise<void>>> = {
  closed: startClosed,
  failing: async (scene) => {
    const { library, control } = failingDisk(scene);
    execFileSync('cc', ['-shared', '-fPIC', '-O1', '-o', library, SHIM, '-ldl']);
    await startInShell(scene, 'true', ['env', `LD_PRELOAD=${library}`, `SVC_CHAOS_FAILING=${control}`]);
  },
};

/** Reason why no process can drop its capabilities here; undefined if it can. */
function cannotBeClosed(): string | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const { status } = spawnSync('setpriv', [...NO_CAPABILITIES, 'true'], { stdio: 'ignore' });
  return status === 0 ? undefined : 'needs setpriv of util-linux, as root';
}

/** Root without these is refused like any other user. */
const NO_CAPABILITIES = ['--bounding-set=-all', '--inh-caps=-all'];

async function startClosed(scene: Scene): Promise<void> {
  if (process.getuid?.() === 0) await startInShell(scene, 'true', ['setpriv', ...NO_CAPABILITIES]);
  else await scene.start();
}

function directoryFault(place: Place, kind: Kind): Fault {
  const { directory, condition, mayFail = [] } = place;
  const [start, impossible] = [START[kind], CANNOT[kind]];
  return {
    name: `${directory} directory: ${SHOWN[kind]}`,
    planted: `the ${directory} directory while three clients send requests: ${PLANTED[kind]}`,
    mended: MENDED,
    withinSeconds: 5,
    daemon: start === undefined ? 'lives' : 'absent',
    mayFail,
    sees: new RegExp(`^/livez: HTTP 200, ${condition} (warn|fail): .*\\$SVC_HOME/${directory}.*$`),
    ...given({ impossible }),
    async plant(scene) {
      await start?.(scene);
      mkdirSync(scene.path(directory), { recursive: true, mode: 0o700 });
      await scene.load();
      return await spoiled(scene, kind, scene.path(directory), place);
    },
  };
}

/** Requests that need nothing of what is spoiled are answered all the while, and the condition passes by itself. */
async function spoiled(
  scene: Scene,
  kind: Kind,
  path: string,
  { condition, reports }: Pick<Place, 'condition' | 'reports'>,
): Promise<string> {
  const pid = await scene.pid();
  const mend = SPOIL[kind](path, scene);
  // Causes a log line and checks everything that a request needs.
  const livez = `HTTP ${(await scene.http('/livez')).status}`;
  await scene.http('/nothing-is-here');
  await scene.requests.ask();
  const reason = await conditionTurns(scene, condition, /^(warn|fail)$/, reports?.(kind));
  await scene.timed(mend);
  await conditionTurns(scene, condition, /^ok$/);
  must((await scene.pid()) === pid, 'the daemon is another');
  return `/livez: ${livez}, ${reason.replace(DAEMON_FILE_WRITE, '')}`;
}

/** daemon.json is written every 10 s: only some runs get there before the repair. */
const DAEMON_FILE_WRITE = /; cannot write \S+daemon\.json: [^;]*/;

interface SpoiledFile {
  readonly name: string;
  readonly planted: string;
  /** Path relative to the home. */
  path(): readonly [string, string];
  /** Creates the file; absent: the daemon does. */
  make?(scene: Scene): unknown;
  readonly condition: string;
  readonly reports?: Reports;
  readonly mayFail?: readonly string[];
}

/** File name of the usage ledger of this month (UTC). */
function ledgerName(): string {
  return `usage-${new Date().toISOString().slice(0, 7)}.jsonl`;
}

const FILES: readonly SpoiledFile[] = [
  {
    name: 'usage ledger',
    planted: 'this month’s `usage-*.jsonl`',
    path: () => ['state', ledgerName()],
    condition: 'storage',
    reports: (kind) => ['the usage ledger ', ...(kind === 'failing' ? [LEDGER_WRITE] : [])],
  },
  {
    name: 'log',
    planted: '`daemon.log`',
    path: () => ['state', 'daemon.log'],
    condition: 'storage',
    // The open file of a log without access is written on.
    reports: (kind) => ['the log ', ...(kind === 'closed' ? [] : [LOG_WRITE])],
  },
  {
    name: 'file of API keys',
    planted: '`keys.json`, which had no key,',
    path: () => ['data', 'keys.json'],
    make: async (scene) => {
      must((await scene.svc('key', 'add', 'mine')).code === 0, 'no key could be made');
      must((await scene.svc('key', 'rm', 'mine')).code === 0, 'the key could not be removed');
    },
    condition: 'api_keys',
    mayFail: ['invalid_api_key'],
  },
  {
    name: 'config file',
    planted: '`config.json`',
    path: () => ['config', 'config.json'],
    make: (scene) => scene.configure({}),
    condition: 'storage',
  },
];

const KINDS_OF_FILES = ['FIFO', 'directory', 'closed', 'failing'] as const;

function fileFault(file: SpoiledFile, kind: (typeof KINDS_OF_FILES)[number]): Fault {
  const { name, planted, condition, mayFail = [] } = file;
  const [start, impossible] = [START[kind], CANNOT[kind]];
  return {
    name: `${name}: ${SHOWN[kind]}`,
    planted: `${planted} while three clients send requests: ${PLANTED[kind]}`,
    mended: MENDED,
    withinSeconds: 5,
    daemon: start === undefined ? 'lives' : 'absent',
    mayFail,
    sees: new RegExp(`^/livez: HTTP 200, ${condition} warn: `),
    ...given({ impossible }),
    async plant(scene) {
      await start?.(scene);
      await file.make?.(scene);
      const path = scene.path(...file.path());
      await scene.load();
      await waitFor(`${path} to be there`, () => existsSync(path));
      return await spoiled(scene, kind, path, file);
    },
  };
}

export const PLACES_SPOILED: readonly Fault[] = [
  ...PLACES.flatMap((place) => place.kinds.map((kind) => directoryFault(place, kind))),
  ...FILES.flatMap((file) => KINDS_OF_FILES.map((kind) => fileFault(file, kind))),
];

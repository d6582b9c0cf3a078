/** Directories and files replaced by another kind of file, or made inaccessible, while the daemon runs. */
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { given } from '../../../src/protocol/given.ts';
import { replacePath, restorePath } from '../../support/replace-path.ts';
import { conditionTurns } from '../conditions.ts';
import { must, type Fault } from '../fault.ts';
import { startInShell } from '../shell.ts';
import type { Scene } from '../scene.ts';

/** Ways to make a directory unusable; each returns a function that repairs it. */
const SPOIL = {
  failing: (directory: string): (() => void) => {
    writeFileSync(failingDisk(directory).control, directory);
    return () => rmSync(failingDisk(directory).control);
  },
  file: (directory: string): (() => void) => {
    replacePath(directory, (at) => writeFileSync(at, 'not a directory'));
    return () => restorePath(directory);
  },
  loop: (directory: string): (() => void) => {
    replacePath(directory, (at) => symlinkSync(directory, at));
    return () => restorePath(directory);
  },
  closed: (directory: string): (() => void) => {
    chmodSync(directory, 0);
    return () => chmodSync(directory, 0o700);
  },
} as const;

const PLANTED = {
  file: 'a file in its place (ENOTDIR)',
  loop: 'a link to itself in its place (ELOOP)',
  closed: '`chmod 000` of it under a daemon without capabilities (EACCES)',
  failing: 'every call of the daemon on its files fails, as on a broken disk (EIO)',
} as const;

const SHOWN = {
  file: 'a file in its place',
  loop: 'a link to itself',
  closed: 'no access',
  failing: 'a broken disk',
} as const;

type Kind = keyof typeof SPOIL;

interface Place {
  readonly directory: string;
  readonly kinds: readonly Kind[];
  /** Condition that reports the fault; undefined if nothing reads the directory until a command does. */
  readonly condition?: string;
  readonly mayFail?: readonly string[];
}

const PLACES: readonly Place[] = [
  { directory: 'state', kinds: ['file', 'loop', 'closed', 'failing'], condition: 'storage' },
  { directory: 'run', kinds: ['file', 'loop', 'closed'], condition: 'listeners' },
  // Keys that cannot be read admit no client.
  {
    directory: 'data',
    kinds: ['file', 'loop', 'closed', 'failing'],
    condition: 'storage',
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
  { directory: 'config', kinds: ['file', 'loop'] },
];

const MENDED = 'put back; svc finds it by itself';

const SHIM = fileURLToPath(new URL('../failing-disk.c', import.meta.url));

/** Where a fault of kind `failing` has its compiled shim and the file that turns it on: beside the home. */
function failingDisk(directory: string): { library: string; control: string } {
  const home = dirname(directory);
  return { library: join(home, 'failing-disk.so'), control: join(home, 'failing-disk') };
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
const START: Partial<Record<Kind, (scene: Scene, directory: string) => Promise<void>>> = {
  closed: startClosed,
  failing: async (scene, directory) => {
    const { library, control } = failingDisk(directory);
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

function directoryFault({ directory, condition, mayFail = [] }: Place, kind: Kind): Fault {
  const [start, impossible] = [START[kind], CANNOT[kind]];
  return {
    name: `${directory} directory: ${SHOWN[kind]}`,
    planted: `the ${directory} directory while three clients send requests: ${PLANTED[kind]}`,
    mended: MENDED,
    withinSeconds: 5,
    daemon: start === undefined ? 'lives' : 'absent',
    mayFail,
    sees:
      condition === undefined
        ? /^\/livez: HTTP 200$/
        : new RegExp(`^/livez: HTTP 200, ${condition} (warn|fail): .*\\$SVC_HOME/${directory}.*$`),
    ...given({ impossible }),
    async plant(scene) {
      await start?.(scene, scene.path(directory));
      mkdirSync(scene.path(directory), { recursive: true, mode: 0o700 });
      await scene.load();
      return await spoiled(scene, () => SPOIL[kind](scene.path(directory)), condition);
    },
  };
}

/** Requests that need nothing of what is spoiled are answered all the while, and the condition passes by itself. */
async function spoiled(scene: Scene, spoil: () => () => void, condition: string | undefined): Promise<string> {
  const pid = await scene.pid();
  const mend = spoil();
  // Causes a log line and checks everything that a request needs.
  const livez = `HTTP ${(await scene.http('/livez')).status}`;
  await scene.http('/nothing-is-here');
  await scene.requests.ask();
  const reason = condition === undefined ? '' : `, ${await conditionTurns(scene, condition, /^(warn|fail)$/)}`;
  await scene.timed(mend);
  if (condition !== undefined) await conditionTurns(scene, condition, /^ok$/);
  must((await scene.pid()) === pid, 'the daemon is another');
  return `/livez: ${livez}${reason}`;
}

interface Intruder {
  readonly name: string;
  readonly planted: string;
  /** Path relative to the home. */
  path(): readonly [string, string];
  readonly condition: string;
  readonly mayFail?: readonly string[];
}

/** File name of the usage ledger of this month (UTC). */
function ledgerName(): string {
  return `usage-${new Date().toISOString().slice(0, 7)}.jsonl`;
}

const FILES_REPLACED: readonly Intruder[] = [
  {
    name: 'usage ledger',
    planted: 'this month’s `usage-*.jsonl`',
    path: () => ['state', ledgerName()],
    condition: 'storage',
  },
  { name: 'log', planted: '`daemon.log`', path: () => ['state', 'daemon.log'], condition: 'storage' },
  {
    name: 'file of API keys',
    planted: '`keys.json`, which had no key,',
    path: () => ['data', 'keys.json'],
    condition: 'api_keys',
    mayFail: ['invalid_api_key'],
  },
];

function intruderFault(intruder: Intruder, kind: 'FIFO' | 'directory'): Fault {
  const { name, planted, condition, mayFail = [] } = intruder;
  return {
    name: `${name}: a ${kind} in its place`,
    planted: `${planted} replaced by a ${kind} while three clients send requests`,
    mended: MENDED,
    withinSeconds: 5,
    daemon: 'lives',
    underLoad: true,
    mayFail,
    sees: new RegExp(`^/livez: HTTP 200, ${condition} warn: `),
    async plant(scene) {
      const path = scene.path(...intruder.path());
      return await spoiled(
        scene,
        () => {
          mkdirSync(scene.path(intruder.path()[0]), { recursive: true, mode: 0o700 });
          replacePath(path, (at) => {
            if (kind === 'FIFO') execFileSync('mkfifo', [at]);
            else mkdirSync(at);
          });
          return () => restorePath(path);
        },
        condition,
      );
    },
  };
}

export const PLACES_SPOILED: readonly Fault[] = [
  ...PLACES.flatMap((place) => place.kinds.map((kind) => directoryFault(place, kind))),
  ...FILES_REPLACED.flatMap((intruder) =>
    (['FIFO', 'directory'] as const).map((kind) => intruderFault(intruder, kind)),
  ),
];

/** Homes that svc cannot use, and each command of svc in them. */
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadSpecs } from '../../src/cli/commands.ts';
import { mountMemoryDisk, remount, unmount } from './memory-disk.ts';
import { svc, type SvcResult } from './svc.ts';

const SPECS = await loadSpecs();

/** Time limit of a command; one that hangs is killed and rejects. */
export const TIMEOUT_MS = 180_000;
/** Commands that use no file of the home. */
export const WITHOUT_HOME: readonly string[] = ['version', 'completion'];
/** Reports the problem as a failed check, after it has measured the speed of the devices. */
export const DOCTOR = 'doctor';
/** Commands that change this machine or contact others. */
const NOT_RUN: readonly string[] = ['model search', 'gpu install', 'service install', 'service uninstall'];
/** All other commands. */
export const COMMANDS: readonly string[] = Object.keys(SPECS).filter((name) => !NOT_RUN.includes(name));

/** Kinds of homes that no command can use, and how each is made at a path; its result is the home. */
export const UNUSABLE: Readonly<Record<string, (path: string) => string>> = {
  'a file': (path) => {
    writeFileSync(path, '');
    return path;
  },
  'below a file': (path) => {
    writeFileSync(path, '');
    return join(path, 'deep', 'home');
  },
  'a dangling link': (path) => {
    symlinkSync(`${path}-nothing`, path);
    return path;
  },
  'a link to itself': (path) => {
    symlinkSync(path, path);
    return path;
  },
  ...(existsSync('/proc/self') ? { 'on procfs': () => '/proc/svc-home/deep', 'procfs itself': () => '/proc' } : {}),
};

/** On a full disk a daemon still starts and serves, without a log: starting needs no disk space. */
export const FULL = 'is full';

/** Commands that write to the home. */
export const WRITING: readonly string[] = ['config set', 'key add', 'provider set'];
/** Commands that start a daemon. */
export const STARTING: readonly string[] = ['start', 'serve', 'run'];
/** Commands that only read. */
export const READING: readonly string[] = ['status', 'model list', 'config show', 'logs', 'usage'];

/** A command in a bad home. */
export interface Tried {
  readonly result: SvcResult;
  /** Duration. */
  readonly ms: number;
  /** CPU time of the command and its own children, in clock ticks; 0 where the kernel does not report it. */
  readonly ticks: number;
}

/** Makes homes in a temporary directory and runs commands in them, one at a time. Call `remove` at the end. */
export class BadHomes {
  readonly #scratch = mkdtempSync(join(tmpdir(), 'svc-bad-homes-'));
  readonly #mounted: string[] = [];
  readonly #arguments: Readonly<Record<string, readonly string[]>>;
  #count = 0;

  constructor() {
    writeFileSync(join(this.#scratch, 'Modelfile'), 'FROM builtin\n');
    this.#arguments = {
      run: ['hi'],
      'model add': [join(this.#scratch, 'no.gguf')],
      'model create': ['x', '-f', join(this.#scratch, 'Modelfile')],
      'model quantize': ['builtin', 'Q4_0'],
      'model pull': ['hf:a/b'],
      'config get': ['http.port'],
      'config set': ['http.port', '1'],
      'config unset': ['http.port'],
      'key add': ['me'],
      'key rm': ['me'],
      completion: ['bash'],
      // Without --print it looks for the agent's program first.
      launch: ['claude', '--print'],
      'provider set': ['openai', '--default-model', 'm'],
    };
  }

  /** Path of nothing yet. */
  path(): string {
    return join(this.#scratch, String(this.#count++));
  }

  /** A new home of a kind of `UNUSABLE`. */
  plant(kind: string): string {
    return UNUSABLE[kind]?.(this.path()) ?? '';
  }

  /** Kinds of homes that can be read but not written. Each returns null where this user cannot make it. */
  readonly unwritable: Readonly<Record<string, () => string | null>> = {
    [FULL]: () => this.#mount((home) => this.#fill(home)),
    'is read-only': () =>
      this.#mount((home) => {
        mkdirSync(join(home, 'state'));
        remount(home, 'ro');
      }),
    'has no write permission': () => {
      const home = this.path();
      mkdirSync(home);
      mkdirSync(join(home, 'state'));
      chmodSync(join(home, 'state'), 0o500);
      chmodSync(home, 0o500);
      return process.getuid?.() === 0 ? null : home;
    },
  };

  /** Runs a command with the arguments that it needs. */
  async run(dir: string, name: string): Promise<Tried> {
    const env = { SVC_HOME: dir, SVC_HTTP_ADDR: '127.0.0.1:0', SVC_GRPC_ADDR: '127.0.0.1:0' };
    const before = childrenTicks();
    const startedAt = performance.now();
    const result = await svc(this.#commandLine(name), { home: { dir, env, remove }, timeoutMs: TIMEOUT_MS });
    return { result, ms: performance.now() - startedAt, ticks: childrenTicks() - before };
  }

  async remove(): Promise<void> {
    for (const home of this.#mounted) await unmount(home);
    rmSync(this.#scratch, { recursive: true, force: true });
  }

  #commandLine(name: string): string[] {
    const needed = (SPECS[name as keyof typeof SPECS].arguments ?? [])
      .filter(({ required }) => required)
      .map(({ choices }) => choices?.[0] ?? 'x');
    return [...name.split(' '), ...(this.#arguments[name] ?? needed)];
  }

  #mount(prepare: (home: string) => void): string | null {
    const home = this.path();
    mkdirSync(home);
    try {
      mountMemoryDisk(home, 'size=64k');
    } catch {
      return null;
    }
    this.#mounted.push(home);
    prepare(home);
    return home;
  }

  #fill(home: string): void {
    try {
      writeFileSync(join(home, 'filler'), Buffer.alloc(1024 * 1024));
    } catch {
      // Expected: the file system is full now.
    }
  }
}

/** CPU time of all child processes that have ended, in clock ticks. */
function childrenTicks(): number {
  if (!existsSync('/proc/self/stat')) return 0;
  const fields = readFileSync('/proc/self/stat', 'latin1')
    .replace(/^.*\) /s, '')
    .split(' ');
  return Number(fields[13]) + Number(fields[14]);
}

/** The directory is removed with all others. */
async function remove(): Promise<void> {
  await Promise.resolve();
}

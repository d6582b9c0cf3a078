/** Runs programs in a root file system of their own. Needs Linux, root and the right to mount. */
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { promisify } from 'node:util';
import { execFile } from 'node:child_process';
import { childEnvironment } from '../../src/process/environment.ts';

export interface ChrootOptions {
  readonly env: Readonly<Record<string, string>>;
  /** `UID:GID`; root by default. */
  readonly user?: string;
  /** Makes everything read-only but /tmp, which is empty, and this folder of the host, mounted at `at`. */
  readonly volume?: { readonly folder: string; readonly at: string };
}

/** Returns why this machine cannot; undefined if it can. */
export function noChroot(): string | undefined {
  if (process.platform !== 'linux') return 'there is chroot with mounts on Linux only';
  try {
    execFileSync('unshare', ['--mount', 'true'], { stdio: 'ignore' });
    return undefined;
  } catch {
    return 'chroot and mounts need root';
  }
}

/** The mounts are in a namespace of the process, and gone with it. The linker needs none of them, Node does. */
const SCRIPT = `
root=$1 user=$2 volume=$3 at=$4
shift 4
mount --bind "$root" "$root"
mount --bind /dev "$root/dev"
mount --rbind /proc "$root/proc"
if [ -n "$volume" ]; then
  mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
  mount --bind "$volume" "$root$at"
  mount -o remount,bind,ro "$root"
fi
exec chroot --userspec="$user" "$root" "$@"
`;

/** Starts a program in the folder `root`, which needs the folders dev, proc and tmp. */
export function spawnInChroot(root: string, command: readonly string[], options: ChrootOptions): ChildProcess {
  return spawn('unshare', argumentsFor(root, command, options), {
    env: environmentOf(options),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

/** Runs a program to its end; rejects unless it exits with 0. */
export async function inChroot(
  root: string,
  command: readonly string[],
  options: ChrootOptions,
): Promise<{ readonly stdout: string; readonly stderr: string }> {
  const done = promisify(execFile)('unshare', argumentsFor(root, command, options), {
    env: environmentOf(options),
    timeout: 180_000,
  });
  done.child.stdin?.end();
  return await done;
}

function argumentsFor(root: string, command: readonly string[], { user = '0:0', volume }: ChrootOptions): string[] {
  const { folder = '', at = '' } = volume ?? {};
  return ['--mount', 'sh', '-ec', SCRIPT, 'sh', root, user, folder, at, ...command];
}

/** Nothing of the host but the path of `unshare` and `mount`, and the mark of the test runner. */
function environmentOf({ env }: ChrootOptions): Record<string, string> {
  const { PATH = '', SVC_TEST_FILE_RUN } = childEnvironment();
  return { ...env, PATH, ...(SVC_TEST_FILE_RUN === undefined ? {} : { SVC_TEST_FILE_RUN }) };
}

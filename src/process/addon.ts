/**
 * What a process asks of its kernel and Node does not offer: process.node, built from native/process. Loaded by the
 * daemon and by engine processes; libllama is not in it.
 */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { variable } from '../config/environment.ts';

/** Files and folders; a folder stands for all in it. Paths that do not exist are skipped. */
export interface SandboxPaths {
  readonly read: readonly string[];
  /** Read, written, created, removed. Links are not followed. */
  readonly write: readonly string[];
  /** Read, written, controlled by ioctl. */
  readonly devices: readonly string[];
}

/** The parts of the sandbox: 0 is in force, anything else an errno that says why it is not. */
export interface SandboxReport {
  readonly noNewPrivileges: number;
  readonly capabilities: number;
  readonly landlock: number;
  /** ABI version of the kernel's Landlock; 0: it has none. */
  readonly landlockVersion: number;
  readonly seccomp: number;
}

export interface ProcessAddon {
  /** For this process, until exec: neither core files nor crash handlers, and no tracing by processes of the same user. */
  forbidCoreDumps(): void;
  /** Linux: closes descriptors above `last` that were inherited. Those that Node opened stay. */
  closeInheritedFiles(last: number): void;
  /** Sends a message of sd_notify to the socket at `path`. Returns 0 or an errno. */
  notify(path: string, message: string): number;
  /** Linux: gives up what an engine does not need, on every thread, for good. Once in the life of a process. */
  enterSandbox(paths: SandboxPaths): SandboxReport;
  /** A root process keeps CAP_DAC_READ_SEARCH in the sandbox until this is called. Returns 0 or an errno. */
  leaveLastCapability(): number;
}

/** Where svc.node and process.node lie: in a checkout, in the package. `src/process` and `dist/process` are equally deep. */
export function nativeFolders(): string[] {
  const root = fileURLToPath(new URL('../..', import.meta.url));
  return [join(root, 'build', 'addon', 'bin'), join(root, 'prebuilds', `${process.platform}-${process.arch}`)];
}

/** Throws what Node says of a module that is missing or does not load. */
export function loadProcessAddon(): ProcessAddon {
  const named = variable('SVC_ADDON');
  const folders = named === undefined ? nativeFolders() : [dirname(named), ...nativeFolders()];
  const paths = folders.map((folder) => join(folder, 'process.node'));
  const path = paths.find((each) => existsSync(each)) ?? paths.join(' or ');
  return createRequire(import.meta.url)(path) as ProcessAddon;
}

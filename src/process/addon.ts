/**
 * JavaScript interface of process.node (native/process): kernel features that Node does not offer. Loaded by the daemon
 * and by engine processes; does not contain libllama.
 */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { variable } from './environment.ts';
import { nativePlace } from './native-package.ts';

/** Files and directories; a directory includes everything below it. Missing paths are skipped. */
export interface SandboxPaths {
  readonly read: readonly string[];
  /** May be read, written, created and removed. Links are not followed. */
  readonly write: readonly string[];
  /** May be read, written and controlled by ioctl. */
  readonly devices: readonly string[];
}

/** Status of each part of the sandbox: 0 is active, otherwise the errno of the failure. */
export interface SandboxReport {
  readonly noNewPrivileges: number;
  readonly capabilities: number;
  readonly landlock: number;
  /** ABI version of the kernel's Landlock; 0: no Landlock. */
  readonly landlockVersion: number;
  readonly seccomp: number;
}

export interface ProcessAddon {
  /** Forbids core files, crash handlers and tracing by processes of the same user; lasts until exec. */
  forbidCoreDumps(): void;
  /** Linux: closes inherited descriptors above `last`. Descriptors opened by Node stay open. */
  closeInheritedFiles(last: number): void;
  /** Sends an sd_notify message to the socket at `path`. Returns 0 or an errno. */
  notify(path: string, message: string): number;
  /** Linux: restricts every thread permanently to what an engine needs. Call once per process. */
  enterSandbox(paths: SandboxPaths): SandboxReport;
  /** A root process keeps CAP_DAC_READ_SEARCH in the sandbox until this is called. Returns 0 or an errno. */
  leaveLastCapability(): number;
  /** Attempts with raw system calls what the sandbox forbids; harmless. `error`: an errno; 0: it was not refused. */
  makeTrials(parentPid: number): readonly { readonly what: string; readonly error: number }[];
}

/** Throws if the module is missing or cannot be loaded: Node's error, or one that names the missing package. */
export function loadProcessAddon(): ProcessAddon {
  const require = createRequire(import.meta.url);
  const named = variable('SVC_ADDON');
  if (named !== undefined) {
    const path = join(dirname(named), 'process.node');
    if (existsSync(path)) return require(path) as ProcessAddon;
  }
  const place = nativePlace();
  if ('message' in place) throw new Error(`${place.message}. ${place.hint}`);
  return require(join(place.folder, 'process.node')) as ProcessAddon;
}

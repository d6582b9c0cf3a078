/**
 * How the last daemon ended. A clean exit is recorded in its file. Otherwise the reason is derived from other traces:
 * a new boot id, the crash output of Node, the kernel's log.
 */
import { closeSync, fstatSync, readSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { openToReadSync } from '../files/open-file.ts';
import type { LastExit } from '../protocol/records.ts';
import { orElse } from '../protocol/foreign-text.ts';
import { readDaemonFile, type DaemonFile } from './daemon-file.ts';
import { wasKilledForMemory } from '../process/kernel-log.ts';
import { crashFile } from './paths.ts';
import { bootId } from '../process/process-identity.ts';

/** More than the crash output of Node. */
const CRASH_BYTES = 64 * 1024;

/** Returns how the daemon of the file `path` ended. REQUIRES: it no longer runs. null: none has ever run. */
export function lastExit(path: string): LastExit | null {
  const file = readDaemonFile(path);
  if (file === null) return null;
  if (file.exit !== null) return file.exit;
  const at = timeOf(path) ?? file.started_at;
  return { code: null, at, ...traces(file, crashFile({ stateDir: dirname(path) })) };
}

function traces(file: DaemonFile, crash: string): Pick<LastExit, 'signal' | 'reason'> {
  const process = file.process ?? null;
  if (process !== null && process.boot_id !== bootId()) {
    return { signal: null, reason: 'the machine was restarted or lost power while it ran' };
  }
  if (process !== null && wasKilledForMemory(file.pid, process)) {
    return { signal: 'SIGKILL', reason: 'the system ran out of memory and killed it' };
  }
  if ((timeOf(crash) ?? '') > file.started_at) {
    const reason = describeCrash(
      orElse(() => readEnd(crash), ''),
      file.pid,
    );
    if (reason !== null) return { signal: 'SIGABRT', reason };
  }
  return {
    signal: null,
    reason: 'it ended unexpectedly (a crash, kill -9 or power loss); `at` is its last sign of life',
  };
}

/** Returns the reason from Node's crash output. null: the text is something else, or from another process. */
function describeCrash(text: string, pid: number): string | null {
  // V8 marks its lines about memory with the pid.
  const ofThisProcess = text.lastIndexOf(`[${String(pid)}:0x`);
  if (ofThisProcess === -1 || !text.includes('heap out of memory', ofThisProcess)) return null;
  return 'it ran out of memory: the JavaScript heap of the daemon was full';
}

function readEnd(file: string): string {
  const descriptor = openToReadSync(file);
  try {
    const { size } = fstatSync(descriptor);
    const bytes = Buffer.alloc(Math.min(size, CRASH_BYTES));
    return bytes.toString('utf8', 0, readSync(descriptor, bytes, 0, bytes.length, size - bytes.length));
  } finally {
    closeSync(descriptor);
  }
}

function timeOf(path: string): string | null {
  return orElse(() => statSync(path).mtime.toISOString(), null);
}

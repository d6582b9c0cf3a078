/** Finds out from the kernel's log if a process was killed by the OOM killer. */
import { closeSync, constants, openSync, readSync } from 'node:fs';
import type { ProcessIdentity } from './process-identity.ts';

const KERNEL_LOG = '/dev/kmsg';
/** Maximum size of a record of the log. */
const RECORD_BYTES = 8192;
const MOST_RECORDS = 100_000;

/** True if the OOM killer killed the process. False also if the log is not readable, as for most users. */
export function wasKilledForMemory(pid: number, { start_ticks }: ProcessIdentity): boolean {
  return readKernelLog().some((record) => isKillForMemory(record, pid, start_ticks));
}

/**
 * True if `record` of /dev/kmsg (`priority,sequence,microseconds since boot,flags;message`) reports that the process
 * was killed. Records from before its start belong to an earlier process with the same pid.
 */
export function isKillForMemory(record: string, pid: number, startTicks: number): boolean {
  const match = /^\d+,\d+,(\d+),[^;]*;(?:Memory cgroup out|Out) of memory: Killed process (\d+) /.exec(record);
  return match !== null && Number(match[2]) === pid && Number(match[1]) >= startTicks * 10_000;
}

function readKernelLog(): string[] {
  const records: string[] = [];
  let log: number | undefined;
  try {
    log = openSync(KERNEL_LOG, constants.O_RDONLY | constants.O_NONBLOCK);
    const buffer = Buffer.alloc(RECORD_BYTES);
    while (records.length < MOST_RECORDS) {
      records.push(buffer.toString('utf8', 0, readRecord(log, buffer)));
    }
  } catch {
    // EAGAIN: end of the log. Any other error: it is not readable, or there is none.
  } finally {
    if (log !== undefined) closeSync(log);
  }
  return records;
}

function readRecord(log: number, buffer: Buffer): number {
  for (;;) {
    try {
      return readSync(log, buffer);
    } catch (error) {
      // The record was overwritten meanwhile; the next read continues after it.
      if ((error as NodeJS.ErrnoException).code !== 'EPIPE') throw error;
    }
  }
}

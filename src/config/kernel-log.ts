/** Whether the kernel killed a process because memory had ended, as its own log tells. */
import { closeSync, constants, openSync, readSync } from 'node:fs';
import type { ProcessIdentity } from './process-identity.ts';

const KERNEL_LOG = '/dev/kmsg';
/** One record of the log is never longer. */
const RECORD_BYTES = 8192;
const MOST_RECORDS = 100_000;

/** false also where the log may not be read, which most systems reserve for administrators. */
export function wasKilledForMemory(pid: number, { start_ticks }: ProcessIdentity): boolean {
  return readKernelLog().some((record) => isKillForMemory(record, pid, start_ticks));
}

/**
 * `record` as /dev/kmsg gives it: `priority,sequence,microseconds since boot,flags;message`. An
 * earlier process of the same pid was killed before this one started.
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
    // EAGAIN: that was all. Anything else: it may not be read, or there is none.
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
      // The record was overwritten while we came to it; the next read goes on after it.
      if ((error as NodeJS.ErrnoException).code !== 'EPIPE') throw error;
    }
  }
}

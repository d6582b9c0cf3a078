/**
 * Simulates a stalled file system for this process. Asynchronous file calls run on libuv's worker threads;
 * here every worker blocks in opening a FIFO.
 */
import { execFileSync } from 'node:child_process';
import { closeSync, constants, openSync } from 'node:fs';
import { mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const WORKERS = Number(process.env['UV_THREADPOOL_SIZE'] ?? 4);

/** Blocks all asynchronous file calls until the returned function is called; pending calls complete then. */
export async function stallFiles(): Promise<() => Promise<void>> {
  const directory = await mkdtemp(join(tmpdir(), 'svc-stall-'));
  const pipes = Array.from({ length: WORKERS }, (_, n) => join(directory, String(n)));
  execFileSync('mkfifo', pipes);
  const opened = pipes.map((pipe) => open(pipe, 'r'));
  return async () => {
    const ends = pipes.map((pipe) => openSync(pipe, constants.O_RDWR | constants.O_NONBLOCK));
    await Promise.all(opened.map(async (each) => await (await each).close()));
    for (const end of ends) closeSync(end);
    await rm(directory, { recursive: true });
  };
}

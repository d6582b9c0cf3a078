/**
 * Target `gguf`: the GGUF reader (src/models/gguf/gguf-header.ts) in its own process with little memory. A crash, or a
 * minute of silence, is a finding, as is a reported problem.
 *
 * Execution N of a seed is the same on every machine with the same test models and hostile files.
 */
import { fork } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { parseGgufHeader } from '../../../src/models/gguf/gguf-header.ts';
import { examine } from './examine.ts';
import { Mutator } from './mutate.ts';
import { makeSeeds } from './seeds.ts';
import type { Progress } from './worker.ts';

const HEAP_MEGABYTES = 64;
const BLOCK = 10_000;
const SILENCE_MS = 60_000;
const TOLD_EVERY_MS = 30_000;
const WORKER = fileURLToPath(new URL('worker.ts', import.meta.url));

interface Ended {
  readonly last: Progress | null;
  /** How the process failed; null if it completed its executions. */
  readonly how: string | null;
}

/** Runs executions `from` to `to` - 1 in one process, with a progress report per block. */
async function work(seed: number, from: number, to: number, block: number): Promise<Ended> {
  const child = fork(WORKER, [seed, from, to, block].map(String), {
    execArgv: ['--import', 'tsx', `--max-old-space-size=${HEAP_MEGABYTES}`],
  });
  let last: Progress | null = null;
  const silence = new AbortController();
  const watch = setTimeout(() => {
    silence.abort();
    child.kill('SIGKILL');
  }, SILENCE_MS);
  const startedAt = performance.now();
  let toldAt = startedAt;
  child.on('message', (progress: Progress) => {
    last = progress;
    watch.refresh();
    if (performance.now() - toldAt < TOLD_EVERY_MS) return;
    toldAt = performance.now();
    tell(last, (toldAt - startedAt) / 1000, from);
  });
  const how = await new Promise<string | null>((resolve) => {
    child.once('close', (code, signal) => resolve(code === 0 ? null : `ended by ${signal ?? `exit ${String(code)}`}`));
  });
  clearTimeout(watch);
  return { last, how: silence.signal.aborted ? `was silent for ${SILENCE_MS / 1000} s` : how };
}

function tell({ done, tally, findings, peakBytes }: Progress, seconds: number, from: number): void {
  const { accepted, refused, more, slowestMs } = tally;
  console.log(
    `${done} executions in ${seconds.toFixed(0)} s (${Math.round((done - from) / seconds)} a second): ` +
      `${refused} refused, ${accepted} accepted, ${more} asked for more bytes; ` +
      `slowest ${slowestMs.toFixed(1)} ms, peak ${Math.round(peakBytes / 1024 / 1024)} MiB, ${findings.length} findings`,
  );
}

/** Returns false if there was a finding. */
export async function fuzzGguf(seed: number, executions: number): Promise<boolean> {
  console.log(`seed ${seed}, ${executions} executions, heap of ${HEAP_MEGABYTES} MiB, Node ${process.version}`);
  const startedAt = performance.now();
  const { last, how } = await work(seed, 0, executions, BLOCK);
  if (last !== null) tell(last, (performance.now() - startedAt) / 1000, 0);
  for (const { index, what } of last?.findings ?? []) console.log(`execution ${index}: ${what}`);
  if (how !== null) {
    const from = last?.done ?? 0;
    const again = await work(seed, from, Math.min(from + BLOCK, executions), 1);
    console.log(`execution ${again.last?.done ?? from}: the process ${again.how ?? `${how}, not reproduced`}`);
  }
  return how === null && last?.findings.length === 0;
}

/** Repeats one execution, and writes the file that it reads to `out`. */
export async function again(seed: number, index: number, out: string | undefined): Promise<void> {
  const input = new Mutator(await makeSeeds(), seed).make(index);
  if (out !== undefined) await writeFile(out, input.bytes);
  console.log(`${input.bytes.length} bytes of a file of ${input.fileBytes}: ${examine(parseGgufHeader, input)}`);
}

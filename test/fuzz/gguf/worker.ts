/** Worker process that runs executions and reports progress; it may be killed. `worker.ts SEED FROM TO BLOCK` */
import { Mutator } from './mutate.ts';
import { FuzzRun, type Finding, type Tally } from './run.ts';
import { makeSeeds } from './seeds.ts';

export interface Progress {
  /** All executions below this number are done. */
  readonly done: number;
  readonly tally: Tally;
  readonly findings: readonly Finding[];
  readonly peakBytes: number;
}

// Nearly all files are refused, and stack traces would dominate the time. A single execution keeps its trace.
Error.stackTraceLimit = 0;

const [seedNumber = 0, from = 0, to = 0, block = 1] = process.argv.slice(2).map(Number);
const run = new FuzzRun(new Mutator(await makeSeeds(), seedNumber));
for (let index = from; index < to && process.connected; index += block) {
  const done = Math.min(index + block, to);
  run.run(index, done);
  const progress: Progress = {
    done,
    tally: run.tally,
    findings: run.findings,
    peakBytes: process.resourceUsage().maxRSS * 1024,
  };
  // Waits for each report, so that a crash is in the first execution that was not reported.
  await new Promise<void>((resolve) => process.send?.(progress, undefined, {}, () => resolve()));
}
if (process.connected) process.disconnect();

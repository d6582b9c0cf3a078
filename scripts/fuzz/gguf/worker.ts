/** The process that executes: it tells how far it is, and may be killed. `worker.ts SEED FROM TO BLOCK` */
import { Mutator } from './mutate.ts';
import { FuzzRun, type Finding, type Tally } from './run.ts';
import { makeSeeds } from './seeds.ts';

export interface Progress {
  /** All executions below are done. */
  readonly done: number;
  readonly tally: Tally;
  readonly findings: readonly Finding[];
  readonly peakBytes: number;
}

// Nearly all are refused, and a trace takes longer than the rest. Who asks for one execution alone gets its trace.
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
  // One at a time: what was not told when the process ends is what it ended of.
  await new Promise<void>((resolve) => process.send?.(progress, undefined, {}, () => resolve()));
}
if (process.connected) process.disconnect();

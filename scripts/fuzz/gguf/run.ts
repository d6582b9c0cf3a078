/** A row of executions, one after the other. */
import { parseGgufHeader } from '../../../src/models/gguf-header.ts';
import { examine, type Outcome } from './examine.ts';
import type { Input, Mutator } from './mutate.ts';

export interface Tally extends Record<Outcome, number> {
  /** Of one execution; where that seems long, of the processor's time and not of the clock's. */
  slowestMs: number;
}

/** What is wrong, with which execution. */
export interface Finding {
  readonly index: number;
  readonly what: string;
}

/** A hundred times what the slowest takes. */
const LONGEST_MS = 50;

export class FuzzRun {
  readonly tally: Tally = { accepted: 0, refused: 0, more: 0, slowestMs: 0 };
  readonly findings: Finding[] = [];
  readonly #mutator: Mutator;
  readonly #parse: typeof parseGgufHeader;

  /** @param parse another one, in tests of this very thing */
  constructor(mutator: Mutator, parse: typeof parseGgufHeader = parseGgufHeader) {
    this.#mutator = mutator;
    this.#parse = parse;
  }

  /** The executions from `from` up to `to`, without it. */
  run(from: number, to: number): void {
    for (let index = from; index < to; index += 1) {
      try {
        this.tally[this.#execute(index)] += 1;
      } catch (error) {
        this.findings.push({ index, what: error instanceof Error ? (error.stack ?? error.message) : String(error) });
      }
    }
  }

  #execute(index: number): Outcome {
    const input = this.#mutator.make(index);
    const startedAt = performance.now();
    const outcome = examine(this.#parse, input);
    let ms = performance.now() - startedAt;
    if (ms > LONGEST_MS) ms = this.#processorMs(input);
    if (ms > LONGEST_MS) throw new Error(`takes ${Math.round(ms)} ms`);
    this.tally.slowestMs = Math.max(this.tally.slowestMs, ms);
    return outcome;
  }
  /** The machine may have been busy with something else: once more. */
  #processorMs(input: Input): number {
    const before = process.cpuUsage();
    examine(this.#parse, input);
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1000;
  }
}

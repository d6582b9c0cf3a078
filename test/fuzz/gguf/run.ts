/** Runs a sequence of executions. */
import { parseGgufHeader } from '../../../src/models/gguf/gguf-header.ts';
import { cpuMs } from '../../support/cpu-time.ts';
import { examine, type Outcome } from './examine.ts';
import type { Input, Mutator } from './mutate.ts';

export interface Tally extends Record<Outcome, number> {
  /** Longest execution; if the wall-clock time is long, CPU time is measured instead. */
  slowestMs: number;
}

/** A problem and the number of its execution. */
export interface Finding {
  readonly index: number;
  readonly what: string;
}

/** Time limit: a hundred times the slowest normal execution. */
const LONGEST_MS = 50;

export class FuzzRun {
  readonly tally: Tally = { accepted: 0, refused: 0, more: 0, slowestMs: 0 };
  readonly findings: Finding[] = [];
  readonly #mutator: Mutator;
  readonly #parse: typeof parseGgufHeader;

  /** @param parse replaces the parser in tests of this class */
  constructor(mutator: Mutator, parse: typeof parseGgufHeader = parseGgufHeader) {
    this.#mutator = mutator;
    this.#parse = parse;
  }

  /** Runs executions `from` to `to` - 1. */
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
  /** Repeats the execution and returns its CPU time, because the machine may have been busy. */
  #processorMs(input: Input): number {
    const before = cpuMs();
    examine(this.#parse, input);
    return cpuMs() - before;
  }
}

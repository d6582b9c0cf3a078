/** Runs faults, a few at once, until all are done or the run is closed. */
import type { Fault } from './fault.ts';
import { judge, type Row } from './judge.ts';
import type { Scene } from './scene.ts';

export class Run {
  readonly #waiting: Fault[];
  readonly #scenes = new Set<Scene>();
  #isClosed = false;

  constructor(faults: readonly Fault[]) {
    this.#waiting = [...faults];
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Returns the rows in order of completion; calls `onRow` with each row when it is complete. */
  async plant(jobs: number, onRow: (row: Row) => void): Promise<Row[]> {
    const rows: Row[] = [];
    const work = async (): Promise<void> => {
      for (let fault = this.#next(); fault !== undefined; fault = this.#next()) {
        const row = await judge(fault, this.#scenes);
        rows.push(row);
        onRow(row);
      }
    };
    await Promise.all(Array.from({ length: jobs }, work));
    return rows;
  }

  /** Closes the running faults and starts no further ones. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#scenes].map((scene) => scene.close()));
  }

  #next(): Fault | undefined {
    return this.#isClosed ? undefined : this.#waiting.shift();
  }
}

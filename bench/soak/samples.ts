/** Memory and open files of processes, sampled while the requests run. Linux. */
import { readdir } from 'node:fs/promises';
import { residentBytes } from '../peers/servers/processes.ts';
import { median } from '../peers/scenario.ts';

export interface Sample {
  /** Number of requests that had ended. */
  readonly requests: number;
  readonly bytes: number;
}

/** Samples of one process. */
export class Watched {
  readonly name: string;
  readonly pid: number;
  readonly #samples: Sample[] = [];

  constructor(name: string, pid: number) {
    this.name = name;
    this.pid = pid;
  }

  async sample(requests: number): Promise<void> {
    this.#samples.push({ requests, bytes: await residentBytes(this.pid) });
  }

  /** Returns the median resident bytes in the first and in the last quarter of `requests`. */
  quarters(requests: number): { readonly first: number; readonly last: number } {
    const within = (from: number, to: number): number =>
      median(this.#samples.filter((each) => each.requests >= from && each.requests <= to).map(({ bytes }) => bytes));
    return { first: within(0, requests / 4), last: within((requests * 3) / 4, requests) };
  }

  async openFiles(): Promise<number> {
    return (await readdir(`/proc/${String(this.pid)}/fd`)).length;
  }
}

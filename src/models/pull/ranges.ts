/** Byte ranges `[from, to)` of a file that are present: sorted and disjoint. */
export interface Range {
  readonly from: number;
  readonly to: number;
}

export class Ranges {
  #ranges: Range[] = [];

  add(from: number, to: number): void {
    if (from >= to) return;
    const apart = this.#ranges.filter((range) => range.to < from || range.from > to);
    const touching = this.#ranges.filter((range) => range.to >= from && range.from <= to);
    const joined = {
      from: Math.min(from, ...touching.map((range) => range.from)),
      to: Math.max(to, ...touching.map((range) => range.to)),
    };
    this.#ranges = [...apart, joined].sort((a, b) => a.from - b.from);
  }

  /** Returns the end of the gapless stretch that begins at `position`. */
  reaches(position: number): number {
    return this.#ranges.find(({ from, to }) => from <= position && position < to)?.to ?? position;
  }

  /** Returns the missing ranges of `[0, size)`, in pieces of at most `mostBytes`. */
  missing(size: number, mostBytes: number): Range[] {
    const gaps: Range[] = [];
    let position = 0;
    for (const { from, to } of [...this.#ranges, { from: size, to: size }]) {
      for (; position < from; position = Math.min(from, position + mostBytes)) {
        gaps.push({ from: position, to: Math.min(from, position + mostBytes) });
      }
      position = Math.max(position, to);
    }
    return gaps;
  }

  [Symbol.iterator](): Iterator<Range> {
    return this.#ranges[Symbol.iterator]();
  }

  get bytes(): number {
    return this.#ranges.reduce((sum, { from, to }) => sum + to - from, 0);
  }

  clear(): void {
    this.#ranges = [];
  }
}

/** Progress of long work on bytes: a bar on a terminal, otherwise a line per tenth or per ten seconds. */
import type { BytesDone } from '../../protocol/routes.ts';
import { bytes, duration } from './format.ts';
import { err, say, sayProgress } from './output.ts';

const LINE_MS = 10_000;
const LINE_SHARE = 0.1;

export class ByteProgress {
  readonly #what: string;
  #saidAt = performance.now();
  #saidShare: number;

  /** @param what prefix of each line. @param share part that was done before, 0 to 1 */
  constructor(what: string, share = 0) {
    this.#what = what;
    this.#saidShare = share;
  }

  show(done: BytesDone): void {
    const share = done.total_bytes === 0 ? 1 : done.done_bytes / done.total_bytes;
    const isDue = share - this.#saidShare >= LINE_SHARE || performance.now() - this.#saidAt >= LINE_MS;
    if (err.isTerminal) {
      sayProgress(bar(done, share));
    } else if (isDue && share > this.#saidShare) {
      say(`${this.#what}: ${figures(done, share)}`);
      this.#saidShare = share;
      this.#saidAt = performance.now();
    }
  }
}

function bar(done: BytesDone, share: number): string {
  const text = figures(done, share);
  // The width of a terminal may be unknown.
  const width = Math.min(40, (err.columns || 80) - text.length - 12);
  if (width < 5) return text;
  const filled = Math.round(share * width);
  return `[${'='.repeat(filled)}${' '.repeat(width - filled)}] ${text}`;
}

function figures({ done_bytes, total_bytes, bytes_per_second }: BytesDone, share: number): string {
  const left = bytes_per_second === null || bytes_per_second < 1 ? null : (total_bytes - done_bytes) / bytes_per_second;
  const rate = bytes_per_second === null ? '' : `, ${bytes(bytes_per_second)}/s`;
  return `${(share * 100).toFixed(0)} %, ${bytes(done_bytes)} of ${bytes(total_bytes)}${rate}${left === null || left < 1 ? '' : `, ${duration(left)} left`}`;
}

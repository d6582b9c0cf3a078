/** What an engine process writes to stdout and stderr, as log lines: bounded in length and in rate. */
import type { Readable } from 'node:stream';

const LINE_CHARACTERS = 2048;
const LINES_PER_SECOND = 50;

/**
 * Lets so many calls a second through to `act`; `onDropped` is told of the others, before the next that comes through
 * or by `flush`.
 */
export function rateLimit<Args extends readonly unknown[]>(
  perSecond: number,
  act: (...args: Args) => void,
  onDropped: (count: number) => void,
): { call(...args: Args): void; flush(): void } {
  let second = 0;
  let calls = 0;
  let dropped = 0;
  const flush = (): void => {
    if (dropped > 0) onDropped(dropped);
    dropped = 0;
  };
  return {
    flush,
    call: (...args) => {
      const now = Math.floor(performance.now() / 1000);
      if (now !== second) {
        flush();
        [second, calls] = [now, 0];
      }
      if (calls++ < perSecond) act(...args);
      else dropped++;
    },
  };
}

/** Reads `stream` to its end. Whatever is longer or faster than the bounds is dropped, and its amount said. */
export function readLines(stream: Readable, onLine: (line: string) => void): void {
  let line = '';
  const { call: emit, flush } = rateLimit(LINES_PER_SECOND, onLine, (count) => {
    onLine(`(${String(count)} lines dropped)`);
  });

  stream.setEncoding('utf8');
  stream.on('data', (chunk: string) => {
    const parts = chunk.split('\n');
    for (const [index, part] of parts.entries()) {
      if (line.length < LINE_CHARACTERS) line += part.slice(0, LINE_CHARACTERS - line.length);
      if (index === parts.length - 1) break;
      if (line.trim() !== '') emit(line.trimEnd());
      line = '';
    }
  });
  stream.on('end', () => {
    if (line.trim() !== '') emit(line.trimEnd());
    flush();
  });
}

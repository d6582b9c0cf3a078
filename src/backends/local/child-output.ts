/** Turns stdout and stderr of an engine process into log lines, bounded in length and rate. */
import type { Readable } from 'node:stream';

const LINE_CHARACTERS = 2048;
const LINES_PER_SECOND = 50;

/**
 * Passes at most `perSecond` calls per second to `act`. The number of dropped calls goes to `onDropped`, before the
 * next call that passes or on `flush`.
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

/** Reads `stream` to its end. Cuts long lines; drops lines above the rate limit and reports how many. */
export function readLines(stream: Readable, onLine: (line: string) => void): void {
  let line = '';
  const { call: emit, flush } = rateLimit(LINES_PER_SECOND, onLine, (count) => {
    onLine(`(rate limit: ${String(count)} lines dropped)`);
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

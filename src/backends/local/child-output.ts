/** What an engine process writes to stdout and stderr, as log lines: bounded in length and in rate. */
import type { Readable } from 'node:stream';

const LINE_CHARACTERS = 2048;
const LINES_PER_SECOND = 50;

/** Reads `stream` to its end. Whatever is longer or faster than the bounds is dropped, and its amount said. */
export function readLines(stream: Readable, onLine: (line: string) => void): void {
  let line = '';
  let second = 0;
  let lines = 0;
  let dropped = 0;

  const emit = (text: string): void => {
    const now = Math.floor(performance.now() / 1000);
    if (now !== second) {
      if (dropped > 0) onLine(`(${String(dropped)} lines dropped)`);
      [second, lines, dropped] = [now, 0, 0];
    }
    if (lines++ < LINES_PER_SECOND) onLine(text);
    else dropped++;
  };

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
    if (dropped > 0) onLine(`(${String(dropped)} lines dropped)`);
  });
}

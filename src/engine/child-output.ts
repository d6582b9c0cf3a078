/**
 * Reads what an engine process writes: its frames, and the text of stdout and stderr. All of it is read at a bounded
 * rate, so that a flood makes the process wait and not the daemon.
 */
import type { Readable } from 'node:stream';
import { FrameDecoder, FROM_ENGINE } from './frames.ts';
import type { FromEngine } from './messages.ts';

/** Four frames a second for each of ten thousand answers. Reading at this rate takes a tenth of a core. */
const FRAMES_PER_SECOND = 40_000;
/** A frame of so many bytes counts as two, and so on. */
const FRAME_BYTES = 2048;

/** Ten times what the log keeps. */
const TEXT_BYTES_PER_SECOND = 1024 * 1024;
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

/** Part of a second in which a whole second's worth may arrive at once. */
const BURST = 0.25;

/**
 * Returns a function that counts what was read from `stream`. While more than `perSecond` come, the stream is paused, so
 * that its writer waits.
 */
export function pace(stream: Readable, perSecond: number): (count: number) => void {
  let [owed, since] = [0, performance.now()];
  return (count) => {
    const now = performance.now();
    owed = Math.max(0, owed - ((now - since) / 1000) * perSecond) + count;
    since = now;
    const surplus = owed - BURST * perSecond;
    if (surplus <= 0) return;
    stream.pause();
    setTimeout(() => stream.resume(), Math.ceil((surplus / perSecond) * 1000));
  };
}

/**
 * Calls `onFrame` with each frame. After a damaged one, or if `onFrame` throws, calls `onDamaged` and discards the rest.
 */
export function readFrames(
  pipe: Readable,
  onFrame: (message: FromEngine) => void,
  onDamaged: (error: unknown) => void,
): void {
  const frames = new FrameDecoder<FromEngine>(FROM_ENGINE);
  const count = pace(pipe, FRAMES_PER_SECOND);
  pipe.on('error', () => undefined); // the exit says why
  pipe.on('data', (chunk: Buffer) => {
    let received = chunk.length / FRAME_BYTES;
    try {
      for (const message of frames.decode(chunk)) {
        received += 1;
        onFrame(message);
      }
    } catch (error) {
      pipe.removeAllListeners('data').resume();
      onDamaged(error);
      return;
    }
    count(received);
  });
}

/** Reads `stream` to its end as UTF-8. */
export function readText(stream: Readable, onText: (text: string) => void): void {
  const count = pace(stream, TEXT_BYTES_PER_SECOND);
  stream.setEncoding('utf8').on('data', (text: string) => {
    count(text.length);
    onText(text);
  });
}

/** Reads `stream` to its end. Cuts long lines; drops lines above the rate limit and reports how many. */
export function readLines(stream: Readable, onLine: (line: string) => void): void {
  let line = '';
  const { call: emit, flush } = rateLimit(LINES_PER_SECOND, onLine, (count) => {
    onLine(`(rate limit: ${String(count)} lines dropped)`);
  });

  readText(stream, (chunk) => {
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

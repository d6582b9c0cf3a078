/** One question to an engine process that lives for its answer. It may crash, hang or write nonsense: each is an outcome. */
import { encodeFrame, FrameDecoder, FROM_ENGINE, type FromEngine, type ToEngine } from './frames.ts';
import { describeExit, spawnEngine, type SpawnOptions } from './spawn.ts';

export interface Question<Answer> extends SpawnOptions {
  readonly ask: ToEngine;
  /** Absent: it may take as long as it likes. */
  readonly timeoutMs?: number;
  /** Aborting it ends the child; there is no answer then. */
  readonly signal?: AbortSignal;
  /** Called with each message; the first answer ends the child. */
  read(message: FromEngine): Answer | undefined;
}

export interface Outcome<Answer> {
  /** undefined: it ended without one. */
  readonly answer: Answer | undefined;
  /** How it ended, after "the engine process"; meaningless beside an answer. */
  readonly end: string;
  readonly isLate: boolean;
  /** The last that it wrote to standard error, where drivers tell what ails them. */
  readonly stderr: string;
}

const STDERR_CHARACTERS = 4096;

/** Resolves when the child is gone. Throws ENGINE_CRASHED when it cannot be started. */
export async function askChild<Answer>({
  ask,
  timeoutMs,
  signal,
  read,
  ...options
}: Question<Answer>): Promise<Outcome<Answer>> {
  const child = await spawnEngine(options);
  const frames = new FrameDecoder<FromEngine>(FROM_ENGINE);
  let answer: Answer | undefined;
  let end: string | undefined;
  let isLate = false;
  let stderr = '';
  const stop = (why: string): void => {
    end ??= why;
    child.kill();
  };

  child.stdout.resume();
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr = (stderr + text).slice(-STDERR_CHARACTERS);
  });
  child.pipe.on('error', () => undefined); // the exit says why
  child.pipe.on('data', (chunk: Buffer) => {
    try {
      for (const message of frames.decode(chunk)) answer ??= read(message);
    } catch {
      stop('wrote garbage');
    }
    // All is said; a driver's exit handlers may hang.
    if (answer !== undefined) child.kill();
  });
  child.pipe.write(encodeFrame(ask));

  const onAbort = (): void => {
    stop('was ended');
  };
  signal?.addEventListener('abort', onAbort);
  if (signal?.aborted === true) onAbort();
  const late = (): void => {
    isLate = true;
    stop(`gave no answer for ${String((timeoutMs ?? 0) / 1000)} s`);
  };
  const timer = timeoutMs === undefined ? undefined : setTimeout(late, timeoutMs);
  const exit = await child.ended;
  clearTimeout(timer);
  signal?.removeEventListener('abort', onAbort);
  return { answer, end: end ?? describeExit(exit), isLate, stderr };
}

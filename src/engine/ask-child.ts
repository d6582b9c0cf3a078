/** Starts an engine process for a single question. A crash, hang or invalid output is a result, not an exception. */
import { SvcError } from '../protocol/errors.ts';
import { readFrames, readText } from './child-output.ts';
import { encodeFrame } from './frames.ts';
import type { FromEngine, ToEngine } from './messages.ts';
import { describeExit, spawnEngine, type EngineExit, type SpawnOptions } from './spawn.ts';

export interface Question<Answer> extends SpawnOptions {
  readonly ask: ToEngine;
  /** Absent: no timeout. */
  readonly timeoutMs?: number;
  /** Aborting kills the child; there is no answer then. */
  readonly signal?: AbortSignal;
  /** Called with each message; the first answer returned ends the child. `send` asks it something more. */
  read(message: FromEngine, send: (message: ToEngine) => void): Answer | undefined;
}

export interface Outcome<Answer> {
  /** undefined: the child ended without an answer. */
  readonly answer: Answer | undefined;
  /** How the child ended; continues "the engine process …". Meaningless if there is an answer. */
  readonly end: string;
  readonly isLate: boolean;
  /** End of the child's stderr, where drivers report errors. */
  readonly stderr: string;
}

const STDERR_CHARACTERS = 4096;
const REASON_CHARACTERS = 500;

/** Resolves when the child is gone. Throws ENGINE_CRASHED if it cannot be started. */
export async function askChild<Answer>({
  ask,
  timeoutMs,
  signal,
  read,
  ...options
}: Question<Answer>): Promise<Outcome<Answer>> {
  const child = await spawnEngine(options);
  let answer: Answer | undefined;
  let end: string | undefined;
  let isLate = false;
  let stderr = '';
  const stop = (why: string): void => {
    end ??= why;
    child.kill();
  };

  const send = (message: ToEngine): void => void child.pipe.write(encodeFrame(message));

  readText(child.stdout, () => undefined);
  readText(child.stderr, (text) => {
    stderr = (stderr + text).slice(-STDERR_CHARACTERS);
  });
  readFrames(
    child.pipe,
    (message) => {
      answer ??= read(message, send);
      // Killed, because a driver's exit handlers may hang.
      if (answer !== undefined) child.kill();
    },
    () => {
      stop('sent invalid data');
    },
  );
  send(ask);

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
  return { answer, end: end ?? withReason(exit, stderr), isLate, stderr };
}

/** An abort's reason is the last line on stderr. */
function withReason(exit: EngineExit, stderr: string): string {
  const reason = exit.signal === 'SIGABRT' ? (stderr.trimEnd().split('\n').at(-1) ?? '') : '';
  const end = describeExit(exit);
  return reason === '' ? end : `${end} (${reason.replace(/\p{C}/gu, ' ').slice(0, REASON_CHARACTERS)})`;
}

/**
 * As askChild, with the answer alone. Throws the error that the child answers, ENGINE_CRASHED, or TIMEOUT.
 * @param missing name of the awaited answer, for the TIMEOUT error
 */
export async function answerOfChild<Answer>(question: Question<Answer>, missing: string): Promise<Answer> {
  const { answer, end, isLate } = await askChild<Answer | SvcError>({
    ...question,
    read(message, send) {
      const isError = message.type === 'failed' || message.type === 'not_estimated';
      return isError ? SvcError.fromRecord(message.error) : question.read(message, send);
    },
  });
  if (answer instanceof SvcError) throw answer;
  if (answer !== undefined) return answer;
  throw isLate
    ? new SvcError('TIMEOUT', `${missing} within ${String((question.timeoutMs ?? 0) / 1000)} s`)
    : new SvcError('ENGINE_CRASHED', `the engine process ${end}`);
}

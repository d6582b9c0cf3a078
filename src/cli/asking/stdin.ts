/** Reads standard input as text. */
import { once } from 'node:events';
import { fstatSync } from 'node:fs';
import { SvcError } from '../../protocol/errors.ts';
import { SilenceTimer } from '../../net/silence-timer.ts';
import { say } from '../terminal/output.ts';

/** After this long, a message says that standard input is still open. */
const PATIENCE_MS = 5000;

/** How long a pipe beside a prompt may stay silent before it is ignored. */
const SILENCE_MS = 2000;

/** True if standard input is a pipe, socket or file. A terminal and /dev/null are read only on request. */
export function hasInput(): boolean {
  try {
    const { isFIFO, isFile, isSocket } = statsOfStdin();
    return isFIFO || isFile || isSocket;
  } catch {
    return false;
  }
}

export interface PromptInput {
  readonly text: string;
  /** Aborted with INPUT_INVALID if an ignored pipe sends data after all. undefined: no pipe was ignored. */
  readonly late: AbortSignal | undefined;
}

/**
 * Reads standard input beside a prompt. A file is read; so is a pipe that sends data or ends soon. Any other pipe is
 * ignored: editors, schedulers and containers may hold one open that nothing is ever written to.
 */
export async function readPromptInput(limitBytes: number): Promise<PromptInput> {
  if (!hasInput()) return { text: '', late: undefined };
  if (statsOfStdin().isFile || (await speaksWithin(SILENCE_MS))) {
    return { text: await readInput(limitBytes), late: undefined };
  }
  say('no data on standard input: ignoring it (put `-` after the prompt to wait for it)');
  const late = new AbortController();
  process.stdin.on('readable', () => {
    if (process.stdin.read() === null) return;
    late.abort(
      new SvcError('INPUT_INVALID', 'standard input sent data only after the answer was requested', {
        hint: 'put `-` after the prompt to wait for it',
      }),
    );
  });
  // Keeps the open pipe from holding the process.
  (process.stdin as { unref?: () => void }).unref?.();
  return { text: '', late: late.signal };
}

/** True if data or the end arrives in time. Consumes nothing. */
async function speaksWithin(timeMs: number): Promise<boolean> {
  const silence = new AbortController();
  const timer = new SilenceTimer(timeMs, () => silence.abort());
  try {
    await once(process.stdin, 'readable', { signal: silence.signal });
    return true;
  } catch {
    return false;
  } finally {
    timer.stop();
  }
}

function statsOfStdin(): { isFIFO: boolean; isFile: boolean; isSocket: boolean } {
  const stats = fstatSync(0);
  return { isFIFO: stats.isFIFO(), isFile: stats.isFile(), isSocket: stats.isSocket() };
}

/** Reads all of standard input, without a final newline. Throws REQUEST_TOO_LARGE; INPUT_INVALID if not UTF-8. */
export async function readInput(limitBytes: number): Promise<string> {
  const patience = setTimeout(() => {
    say('waiting for the end of standard input (use `< /dev/null` if there is no input)');
  }, PATIENCE_MS);
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of process.stdin) {
      chunks.push(chunk as Buffer);
      size += (chunk as Buffer).length;
      if (size > limitBytes) {
        throw new SvcError('REQUEST_TOO_LARGE', `standard input has more than ${String(limitBytes)} bytes`);
      }
    }
  } finally {
    clearTimeout(patience);
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks)).replace(/\r?\n$/, '');
  } catch (error) {
    throw new SvcError('INPUT_INVALID', 'standard input is not text: it is not valid UTF-8', {
      hint: 'convert it first, for example with iconv -t UTF-8',
      cause: error,
    });
  }
}

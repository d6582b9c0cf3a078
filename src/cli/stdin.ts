/** Standard input as text. */
import { fstatSync } from 'node:fs';
import { SvcError } from '../protocol/errors.ts';
import { say } from './output.ts';

/** A pipe that stays open may be one that somebody forgot to close. */
const PATIENCE_MS = 5000;

/** A pipe beside a prompt is asked for so long whether it has anything to say. */
const SILENCE_MS = 2000;

/** Whether something was piped or redirected in. A terminal and /dev/null are not read unasked. */
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
  /** Aborted, with INPUT_INVALID, when a pipe that was left unread speaks after all. undefined: nothing was left. */
  readonly late: AbortSignal | undefined;
}

/**
 * What stands on standard input beside a prompt that is already there. A file is read. So is a pipe
 * that speaks or ends soon; but whoever started us may hold one open that never will (an editor, a
 * scheduler, a container), and the prompt is enough to begin with.
 */
export async function readPromptInput(limitBytes: number): Promise<PromptInput> {
  if (!hasInput()) return { text: '', late: undefined };
  if (statsOfStdin().isFile || (await speaksWithin(SILENCE_MS))) {
    return { text: await readInput(limitBytes), late: undefined };
  }
  say('nothing comes from standard input: going on without it (a `-` after the prompt waits for it)');
  const late = new AbortController();
  process.stdin.on('readable', () => {
    if (process.stdin.read() === null) return;
    late.abort(
      new SvcError('INPUT_INVALID', 'standard input began only after the answer was asked for', {
        hint: 'put `-` after the prompt to wait for it',
      }),
    );
  });
  // Nobody waits for it at the end.
  (process.stdin as { unref?: () => void }).unref?.();
  return { text: '', late: late.signal };
}

/** Whether bytes, or the end, come in time. They stay there to be read. */
async function speaksWithin(timeMs: number): Promise<boolean> {
  return await new Promise((resolve) => {
    const settle = (speaks: boolean): void => {
      clearTimeout(timer);
      process.stdin.off('readable', onReadable);
      resolve(speaks);
    };
    const onReadable = (): void => {
      settle(true);
    };
    const timer = setTimeout(() => {
      settle(false);
    }, timeMs);
    process.stdin.on('readable', onReadable);
  });
}

function statsOfStdin(): { isFIFO: boolean; isFile: boolean; isSocket: boolean } {
  const stats = fstatSync(0);
  return { isFIFO: stats.isFIFO(), isFile: stats.isFile(), isSocket: stats.isSocket() };
}

/** All of it, without a final newline. Throws REQUEST_TOO_LARGE, or INPUT_INVALID when it is not UTF-8. */
export async function readInput(limitBytes: number): Promise<string> {
  const patience = setTimeout(() => {
    say('waiting for the end of standard input (`< /dev/null` if there is none)');
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

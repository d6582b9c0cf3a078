/** Standard input as text. */
import { fstatSync } from 'node:fs';
import { SvcError } from '../protocol/errors.ts';
import { say } from './output.ts';

/** A pipe that stays open may be one that somebody forgot to close. */
const PATIENCE_MS = 5000;

/** Whether something was piped or redirected in. A terminal and /dev/null are not read unasked. */
export function hasInput(): boolean {
  try {
    const { isFIFO, isFile, isSocket } = statsOfStdin();
    return isFIFO || isFile || isSocket;
  } catch {
    return false;
  }
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

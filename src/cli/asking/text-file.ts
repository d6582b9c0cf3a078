import { readFileSync, statSync } from 'node:fs';
import { SvcError } from '../../protocol/errors.ts';

/** Reads a file of UTF-8 text of at most `limit` bytes. Throws INPUT_INVALID. */
export function readTextFile(file: string, limit: number): string {
  try {
    const { size } = statSync(file);
    if (size > limit) throw new SvcError('INPUT_INVALID', `${file} is larger than ${String(limit)} bytes`);
    return new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(file));
  } catch (error) {
    if (error instanceof SvcError) throw error;
    const { code, message } = error as NodeJS.ErrnoException;
    const why =
      code === 'ENOENT' ? 'no such file' : code === 'ERR_ENCODING_INVALID_ENCODED_DATA' ? 'not valid UTF-8' : message;
    throw new SvcError('INPUT_INVALID', `cannot read ${file}: ${why}`, { cause: error });
  }
}

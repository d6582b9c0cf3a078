import { readFile, stat } from 'node:fs/promises';
import { SvcError } from '../../protocol/errors.ts';

/**
 * Reads a file of UTF-8 text of at most `limit` bytes. Throws INPUT_INVALID. Not with the synchronous functions: opening
 * a FIFO waits for its writer, and Ctrl-C would not be handled meanwhile.
 */
export async function readTextFile(file: string, limit: number): Promise<string> {
  try {
    const { size } = await stat(file);
    if (size > limit) throw new SvcError('INPUT_INVALID', `${file} is larger than ${String(limit)} bytes`);
    return new TextDecoder('utf-8', { fatal: true }).decode(await readFile(file));
  } catch (error) {
    if (error instanceof SvcError) throw error;
    const { code, message } = error as NodeJS.ErrnoException;
    const why =
      code === 'ENOENT' ? 'no such file' : code === 'ERR_ENCODING_INVALID_ENCODED_DATA' ? 'not valid UTF-8' : message;
    throw new SvcError('INPUT_INVALID', `cannot read ${file}: ${why}`, { cause: error });
  }
}

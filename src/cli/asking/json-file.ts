import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { readTextFile } from './text-file.ts';

/** Reads a JSON file with `read`, whose SvcError names the place in it. Throws INPUT_INVALID, which names the file. */
export async function readJsonFile<Value>(file: string, hint: string, read: (json: unknown) => Value): Promise<Value> {
  const source = await readTextFile(file, LIMITS.bodyBytes);
  try {
    return read(JSON.parse(source));
  } catch (error) {
    const why = error instanceof SvcError ? error.message : `not valid JSON: ${(error as Error).message}`;
    throw new SvcError('INPUT_INVALID', `${file}: ${why}`, { hint });
  }
}

/**
 * JSON files of this user alone. Reads need no lock: a write replaces the file atomically. A change (read, modify,
 * write) holds a lock. A file that cannot be parsed, or that other users can use, is an error.
 */
import { closeSync, fstatSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import * as v from 'valibot';
import writeFileAtomic from 'write-file-atomic';
import { withFileLock } from '../files/file-lock.ts';
import { openToReadSync } from '../files/open-file.ts';
import { spaceHintOf, whyOf } from '../files/why.ts';
import { SvcError } from '../protocol/errors.ts';
import { given } from '../protocol/given.ts';

const FILE_BYTES = 1024 * 1024;

export interface PrivateFile<Content> {
  readonly schema: v.GenericSchema<unknown, Content>;
  /** Names the file in errors. */
  readonly what: string;
  /** Names the content in errors, and the lock. */
  readonly content: string;
  /** What to do with a file that cannot be used. */
  readonly hint: string;
  /** Bits of the mode that the file may not have, and what they let other users do. */
  readonly forbidden: readonly [bits: number, what: string];
  /** True: no error has a cause, which might quote the file. */
  readonly isSecret: boolean;
}

/** Returns null if there is no file. Throws CONFIG_INVALID. */
export function readPrivate<Content>(path: string, file: PrivateFile<Content>): Content | null {
  let text: string;
  try {
    text = readOwn(path, file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error instanceof SvcError ? error : unusable(path, file, `cannot be read: ${whyOf(error)}`, error);
  }
  try {
    return v.parse(file.schema, JSON.parse(text));
  } catch (error) {
    throw unusable(path, file, 'is damaged, or of a newer svc', error);
  }
}

/** Resolves with what was written. Throws CONFIG_INVALID, CANNOT_WRITE, BUSY, and the errors of `edit`. */
export async function changePrivate<Content>(
  path: string,
  file: PrivateFile<Content>,
  edit: (before: Content | null) => Content,
): Promise<Content> {
  const { content } = file;
  try {
    return await withFileLock(join(dirname(path), `${content}.lock`), { what: `the ${content}` }, async () => {
      const after = edit(readPrivate(path, file));
      await writeFileAtomic(path, `${JSON.stringify(after, null, 2)}\n`, { mode: 0o600 });
      return after;
    });
  } catch (error) {
    if (error instanceof SvcError) throw error;
    throw new SvcError('CANNOT_WRITE', `cannot write ${path}: ${whyOf(error)}`, {
      hint: spaceHintOf(error) ?? 'make its directory writable, or set SVC_HOME to another',
      cause: error,
    });
  }
}

/** Throws CONFIG_INVALID, or the error of the file system. */
function readOwn(path: string, file: PrivateFile<unknown>): string {
  const [bits, exposure] = file.forbidden;
  const descriptor = openToReadSync(path);
  try {
    const { mode, uid, size } = fstatSync(descriptor);
    if (size > FILE_BYTES) throw unusable(path, file, `has more than ${String(FILE_BYTES)} bytes`);
    if (process.platform !== 'win32') {
      if (uid !== 0 && uid !== process.getuid?.()) throw unusable(path, file, `belongs to user ${String(uid)}`);
      if ((mode & bits) !== 0) throw unusable(path, { ...file, hint: `chmod 600 ${path}` }, exposure);
    }
    return readFileSync(descriptor, 'utf8');
  } finally {
    closeSync(descriptor);
  }
}

function unusable(
  path: string,
  { what, hint, isSecret }: Pick<PrivateFile<unknown>, 'what' | 'hint' | 'isSecret'>,
  why: string,
  cause?: unknown,
): SvcError {
  return new SvcError('CONFIG_INVALID', `${what} ${path} ${why}`, {
    hint,
    ...given({ cause: isSecret ? undefined : cause }),
  });
}

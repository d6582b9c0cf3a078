/** Descriptions of file system errors. */

const WORDS: Readonly<Record<string, string>> = {
  EACCES: 'permission denied',
  EPERM: 'permission denied',
  EROFS: 'the file system is read-only',
  ENOSPC: 'the disk is full',
  EDQUOT: 'the disk quota is used up',
  EIO: 'the disk reports an error (EIO)',
  ENOENT: 'no such file or directory',
  ENOTDIR: 'a part of its path is not a directory',
  EISDIR: 'it is a directory, not a file',
  ELOOP: 'its path is a loop of links',
  EEXIST: 'a file with this name already exists',
  ENAMETOOLONG: 'its name is too long',
  EMFILE: 'too many open files',
  ENFILE: 'too many open files on this machine',
  ENOTAFILE: 'it is not a regular file',
};

/** Reason for messages such as "cannot write PATH: …". */
export function whyOf(error: unknown): string {
  const { code } = error as NodeJS.ErrnoException;
  return code === undefined ? 'no reason given' : (WORDS[code] ?? code);
}

/** What to do if the disk or its quota is full; undefined for any other error. */
export function spaceHintOf(error: unknown): string | undefined {
  const { code } = error as NodeJS.ErrnoException;
  return code === 'ENOSPC' || code === 'EDQUOT' ? 'free space on this disk, and run the command again' : undefined;
}

/** True for errors of Node's `fs` and for NotAFileError. */
export function isFileError(error: unknown): error is NodeJS.ErrnoException {
  if (!(error instanceof Error)) return false;
  const { code, syscall, path } = error as NodeJS.ErrnoException;
  return code === 'ENOTAFILE' || (code !== undefined && syscall !== undefined && path !== undefined);
}

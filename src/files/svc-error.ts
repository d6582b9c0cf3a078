/** What the file system has refused, as an error of ours: a person can mend it, and it is no bug. */
import { SvcError } from '../protocol/errors.ts';
import { isFileError, whyOf } from './why.ts';

/** Codes that say something of the file and its disk; any other may come from a bug. */
const OF_THE_DISK: readonly string[] = [
  'EACCES',
  'EPERM',
  'EROFS',
  'ENOSPC',
  'EDQUOT',
  'EIO',
  'ENOTDIR',
  'EISDIR',
  'ELOOP',
  'EMFILE',
  'ENFILE',
  'ENOTAFILE',
  'ENAMETOOLONG',
];

/** Whatever was thrown, as one of ours; what is neither that nor of the disk is INTERNAL. */
export function errorOfFiles(thrown: unknown): SvcError {
  if (!isFileError(thrown) || !OF_THE_DISK.includes(thrown.code ?? '')) return SvcError.from(thrown);
  const what = thrown.path ?? thrown.message;
  return new SvcError('CANNOT_WRITE', `cannot use ${what}: ${whyOf(thrown)}`, {
    hint: 'check its owner, its permissions and the space on its disk: svc doctor',
    cause: thrown,
  });
}

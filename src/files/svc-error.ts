/** Converts file system errors to SvcError: the user can fix them, they are not bugs. */
import { SvcError } from '../protocol/errors.ts';
import { isFileError, whyOf } from './why.ts';

/** Error codes caused by the file or its disk; any other code may be a bug. */
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

/** Converts anything thrown. INTERNAL unless it is a SvcError or an error of the file or its disk. */
export function errorOfFiles(thrown: unknown): SvcError {
  if (!isFileError(thrown) || !OF_THE_DISK.includes(thrown.code ?? '')) return SvcError.from(thrown);
  const what = thrown.path ?? thrown.message;
  return new SvcError('CANNOT_WRITE', `cannot use ${what}: ${whyOf(thrown)}`, {
    hint: 'check its owner, permissions and free disk space; `svc doctor` checks them too',
    cause: thrown,
  });
}

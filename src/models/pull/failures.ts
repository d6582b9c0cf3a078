/** The error of a failed download. */
import { SvcError, type SvcErrorOptions } from '../../protocol/errors.ts';

/** `retryable`: the same request may succeed later. */
export function downloadFailed(message: string, options: SvcErrorOptions = {}): SvcError {
  return new SvcError('DOWNLOAD_FAILED', message, options);
}

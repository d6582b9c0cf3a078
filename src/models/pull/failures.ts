/** How fetching a model fails. */
import { SvcError, type SvcErrorOptions } from '../../protocol/errors.ts';

/** `retryable`: the same may succeed later; otherwise the server is at fault for good. */
export function downloadFailed(message: string, options: SvcErrorOptions = {}): SvcError {
  return new SvcError('DOWNLOAD_FAILED', message, options);
}

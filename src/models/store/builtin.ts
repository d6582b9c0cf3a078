/** The built-in model, which is always installed. */
import { nativePlace } from '../../process/native-package.ts';
import { SvcError } from '../../protocol/errors.ts';
import { modelFileError } from '../gguf/gguf.ts';

/** Path of its file, which is missing if the package that should have it is. */
export function builtinModelPath(): string {
  const place = nativePlace();
  return 'message' in place ? 'nano.gguf' : place.model;
}

/** Returns ENGINE_UNAVAILABLE if the package that should have the file is missing, otherwise null. */
export function missingBuiltin(): SvcError | null {
  const place = nativePlace();
  return 'message' in place ? new SvcError('ENGINE_UNAVAILABLE', place.message, { hint: place.hint }) : null;
}

/** Returns why it cannot be loaded: `error`, which reading its file threw, or the missing package. */
export function builtinFailure(error: unknown, path: string): SvcError {
  const { code, message } = modelFileError(error, path);
  const hint = 'reinstall svc-runtime; in a checkout: git checkout models';
  return (
    missingBuiltin() ?? new SvcError(code, `the built-in model cannot be loaded: ${message}`, { hint, cause: error })
  );
}

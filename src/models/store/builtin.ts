/** The built-in model, which is always installed. */
import { fileURLToPath } from 'node:url';

/** Id of the built-in model in every version. No other model may have it. */
export const BUILTIN_ID = 'builtin';

/** `src/models` and `dist/models` are equally deep. */
export function builtinModelPath(): string {
  return fileURLToPath(new URL('../../../models/nano/nano.gguf', import.meta.url));
}

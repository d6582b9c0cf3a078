/** The model that is always there. */
import { fileURLToPath } from 'node:url';

/** Its name, whatever model it is in this version. No other model may take it. */
export const BUILTIN_ID = 'builtin';

/** `src/models` and `dist/models` are equally deep. */
export function builtinModelPath(): string {
  return fileURLToPath(new URL('../../models/nano/nano.gguf', import.meta.url));
}

import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Root of the repository. Every step runs there, whatever the current directory of the caller is. */
export const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

/** An absolute path inside the repository. */
export const inRoot = (...parts) => join(root, ...parts);

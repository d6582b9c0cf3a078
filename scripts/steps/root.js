import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The repository. Every step runs in it, wherever it was called from. */
export const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

/** An absolute path inside the repository. */
export const inRoot = (...parts) => join(root, ...parts);

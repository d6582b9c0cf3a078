/** The version of this package, from its package.json. */
import { readFileSync } from 'node:fs';

/** `src/config` and `dist/config` are equally deep. */
const manifest = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
  version: string;
};

export const VERSION: string = manifest.version;

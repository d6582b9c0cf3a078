/** What this package's package.json says of its version, and of the Node that it needs. */
import { readFileSync } from 'node:fs';

/** `src/config` and `dist/config` are equally deep. */
const manifest = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
  version: string;
  engines: { node: string };
};

export const VERSION: string = manifest.version;
/** Oldest version of Node that svc supports. */
export const LEAST_NODE: string = manifest.engines.node.replace(/^>=/, '');

/** What this package's package.json says of its version, and of the Node that it needs. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** Path of the package's manifest. `src/config` and `dist/config` are equally deep. */
export const MANIFEST = fileURLToPath(new URL('../../package.json', import.meta.url));

const manifest = JSON.parse(readFileSync(MANIFEST, 'utf8')) as {
  version: string;
  engines: { node: string };
  devDependencies: Readonly<Record<'node-llama-cpp', string>>;
};

export const VERSION: string = manifest.version;
/** Version of svc and of the llama.cpp that it is built with. */
export const ENGINE_VERSION = `${VERSION}, node-llama-cpp ${manifest.devDependencies['node-llama-cpp']}`;
/** Oldest version of Node that svc supports. */
export const LEAST_NODE: string = manifest.engines.node.replace(/^>=/, '');

/** What this package's package.json says of its version, and of the Node that it needs. */
import { isExecutable, ownFile, ownText } from '../process/own-files.ts';

/** Path of the package's manifest. null: an executable carries it in itself. */
export const MANIFEST: string | null = isExecutable ? null : ownFile('package.json');

const manifest = JSON.parse(ownText('package.json')) as {
  version: string;
  engines: { node: string };
  devDependencies: Readonly<Record<'node-llama-cpp', string>>;
};

export const VERSION: string = manifest.version;
/** Version of svc and of the llama.cpp that it is built with. */
export const ENGINE_VERSION = `${VERSION}, node-llama-cpp ${manifest.devDependencies['node-llama-cpp']}`;
/** Oldest version of Node that svc supports. */
export const LEAST_NODE: string = manifest.engines.node.replace(/^>=/, '');

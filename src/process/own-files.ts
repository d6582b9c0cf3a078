/**
 * Files that belong to svc and are not code: package.json, the catalogues, proto/, in an executable also the native
 * files. In a checkout and in the npm package they lie beside the code. The single executable holds them as assets
 * (src/executable/), and unpacks them when a library needs a path.
 *
 * `path` is always relative to the root of the package, with slashes.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { getRawAsset, isSea } from 'node:sea';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';

/** True if this process runs from the single executable. */
export const isExecutable: boolean = isSea();

/** `src` and `dist` are equally deep. */
const root = isExecutable ? null : fileURLToPath(new URL('../..', import.meta.url));
let unpackAll: (() => string) | undefined;

/** Called first in an executable: `unpack` returns the folder with the unpacked files, or throws SvcError. */
export function unpackWith(unpack: () => string): void {
  unpackAll = unpack;
}

/** Returns the path of a file or folder on disk. In an executable it throws SvcError if nothing can be unpacked. */
export function ownFile(path: string): string {
  const folder = root ?? unpackAll?.();
  if (folder === undefined) throw new Error('unpackWith() was not called');
  return join(folder, path);
}

/** Returns the text of a file, without unpacking it. Throws if there is none. */
export function ownText(path: string): string {
  return root === null ? ownAsset(path).toString('utf8') : readFileSync(ownFile(path), 'utf8');
}

/** Returns the bytes of an asset of the executable. Throws if there is none. */
export function ownAsset(path: string): Buffer {
  return gunzipSync(new Uint8Array(getRawAsset(path) as ArrayBuffer));
}

/** Reads the tarballs that `npm pack` makes and that npm's registry has. */
import { readFile } from 'node:fs/promises';
import { gunzipSync } from 'node:zlib';

const BLOCK = 512;
const FILE = new Set(['0', '\0', '']);

/** Returns the files by their path without the first folder (`package/`): `{ bytes, mode }`. Other entries fail. */
export async function readTarball(path) {
  const tar = gunzipSync(await readFile(path));
  const files = new Map();
  let longName;
  for (let at = 0; at + BLOCK <= tar.length && tar[at] !== 0;) {
    const size = Number.parseInt(textAt(tar, at + 124, 12), 8);
    const type = textAt(tar, at + 156, 1);
    const bytes = tar.subarray(at + BLOCK, at + BLOCK + size);
    if (type === 'x') {
      longName = /^\d+ path=(.*)$/m.exec(bytes.toString())?.[1];
    } else if (FILE.has(type)) {
      const name = longName ?? [textAt(tar, at + 345, 155), textAt(tar, at, 100)].filter(Boolean).join('/');
      files.set(name.replace(/^[^/]*\//, ''), { bytes, mode: Number.parseInt(textAt(tar, at + 100, 8), 8) });
      longName = undefined;
    } else if (type !== 'g' && type !== '5') {
      throw new Error(`${path}: an entry of type ${type}`);
    }
    at += BLOCK + Math.ceil(size / BLOCK) * BLOCK;
  }
  return files;
}

function textAt(tar, start, length) {
  const bytes = tar.subarray(start, start + length);
  const end = bytes.indexOf(0);
  return bytes.toString('utf8', 0, end === -1 ? length : end).trim();
}

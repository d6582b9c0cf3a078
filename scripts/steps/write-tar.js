/** Writes tar archives that are the same to the byte for the same files: sorted, without times and names of users. */
import { lstat, readdir, readFile, readlink } from 'node:fs/promises';
import { join } from 'node:path';

const BLOCK = 512;
const NAME_BYTES = 100;
const PREFIX_BYTES = 155;

/**
 * Returns the archive of everything in `folder`, with the modes of the files. `owners`: user and group ids by path,
 * `{ 'var/lib/svc': 1000 }`; all else belongs to root. `seconds`: the time of all files. Throws for what an image cannot
 * have, such as a socket, and for paths that are too long for ustar.
 */
export async function tarOf(folder, { owners = {}, seconds = 0 } = {}) {
  const blocks = [];
  for (const path of (await readdir(folder, { recursive: true })).sort()) {
    const found = await lstat(join(folder, path));
    const entry = {
      path,
      mode: found.mode & 0o7777,
      owner: owners[path] ?? 0,
      seconds,
      size: 0,
      type: '0',
      target: '',
    };
    if (found.isDirectory()) {
      blocks.push(header({ ...entry, path: `${path}/`, type: '5' }));
    } else if (found.isSymbolicLink()) {
      blocks.push(header({ ...entry, mode: 0o777, type: '2', target: await readlink(join(folder, path)) }));
    } else if (found.isFile()) {
      const content = await readFile(join(folder, path));
      const padding = Buffer.alloc((BLOCK - (content.length % BLOCK)) % BLOCK);
      blocks.push(header({ ...entry, size: content.length }), content, padding);
    } else {
      throw new Error(`${path} is no file, folder or link`);
    }
  }
  return Buffer.concat([...blocks, Buffer.alloc(2 * BLOCK)]);
}

/** A header in the format ustar. */
function header({ path, mode, owner, size, seconds, type, target }) {
  const [prefix, name] = splitPath(path);
  const block = Buffer.alloc(BLOCK);
  const octal = (value, at, length) => block.write(`${value.toString(8).padStart(length - 1, '0')}\0`, at, 'ascii');
  block.write(name, 0);
  octal(mode, 100, 8);
  octal(owner, 108, 8);
  octal(owner, 116, 8);
  octal(size, 124, 12);
  octal(seconds, 136, 12);
  // The checksum is computed as if its own field were spaces.
  block.write('        ', 148, 'ascii');
  block.write(type, 156, 'ascii');
  block.write(target, 157);
  block.write('ustar\u000000', 257, 'ascii');
  block.write(prefix, 345);
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'ascii');
  if (Buffer.byteLength(target) > NAME_BYTES) throw new Error(`the target of the link ${path} is too long`);
  return block;
}

/** Splits a path at a slash so that both parts fit into their fields. */
function splitPath(path) {
  if (Buffer.byteLength(path) <= NAME_BYTES) return ['', path];
  for (let at = path.indexOf('/'); at !== -1; at = path.indexOf('/', at + 1)) {
    const [prefix, name] = [path.slice(0, at), path.slice(at + 1)];
    if (name !== '' && Buffer.byteLength(name) <= NAME_BYTES && Buffer.byteLength(prefix) <= PREFIX_BYTES) {
      return [prefix, name];
    }
  }
  throw new Error(`the path ${path} is too long for tar`);
}

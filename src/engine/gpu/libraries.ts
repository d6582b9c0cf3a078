/** Finds shared libraries where the dynamic linker finds them, without loading them. Linux with glibc. */
import { closeSync, existsSync, openSync, readFileSync, readSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { variable } from '../../process/environment.ts';
import { orElse } from '../../protocol/foreign-text.ts';

const DIRECTORIES = [
  'lib/x86_64-linux-gnu',
  'usr/lib/x86_64-linux-gnu',
  'lib/aarch64-linux-gnu',
  'usr/lib/aarch64-linux-gnu',
  'lib64',
  'usr/lib64',
  'lib',
  'usr/lib',
];

/** e_machine of ELF files that this process can load. */
const MACHINES: Readonly<Record<string, number>> = { x64: 62, arm64: 183 };
const ELF_64_BIT = 2;
const HEADER_BYTES = 20;

/**
 * Returns the path of a library for this machine, or null.
 * @param name SONAME, such as `libcuda.so.1`
 * @param root directory that stands for `/`; tests replace it
 */
export function findLibrary(name: string, root = '/'): string | null {
  const linked = (variable('LD_LIBRARY_PATH') ?? '').split(delimiter).filter((folder) => folder !== '');
  const candidates = [
    ...linked.map((folder) => join(folder, name)),
    ...cachedPaths(root).filter((path) => path.endsWith(`/${name}`)),
    ...DIRECTORIES.map((folder) => join(folder, name)),
  ];
  return candidates.map((path) => join(root, path)).find(isForThisMachine) ?? null;
}

/** Paths in the linker's cache, which is a binary file with zero-terminated strings. */
function cachedPaths(root: string): string[] {
  const path = join(root, 'etc/ld.so.cache');
  const text = orElse(() => readFileSync(path, 'latin1'), '');
  return text.split('\0').filter((entry) => entry.startsWith('/'));
}

/** True for an ELF file of 64 bits for this kind of processor; links are followed. */
function isForThisMachine(path: string): boolean {
  if (!existsSync(path)) return false;
  return orElse(() => {
    const file = openSync(path, 'r');
    try {
      const header = Buffer.alloc(HEADER_BYTES);
      readSync(file, header, 0, HEADER_BYTES, 0);
      const isElf = header.readUInt32BE(0) === 0x7f454c46 && header[4] === ELF_64_BIT;
      return isElf && header.readUInt16LE(18) === MACHINES[process.arch];
    } finally {
      closeSync(file);
    }
  }, false);
}

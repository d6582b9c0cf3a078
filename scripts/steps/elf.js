/** What a Linux library needs and offers, read by binutils' readelf, which reads libraries of every processor. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { StepError } from './run.js';

const MOST_OUTPUT = 64 * 1024 ** 2;

/**
 * Returns `{ machine, needed, runPath, versions, undefined, defined }`: `needed`: names of libraries; `runPath`: null if
 * there is none; `versions`: names such as GLIBC_2.34; `undefined`: symbols that another file must define, `defined`:
 * symbols that it defines. A symbol of a library that has versions is in neither: its version is in `versions`.
 */
export async function readElf(path) {
  const { stdout } = await promisify(execFile)('readelf', ['-W', '-h', '-d', '-V', '--dyn-syms', path], {
    maxBuffer: MOST_OUTPUT,
    env: { ...process.env, LC_ALL: 'C' },
  }).catch((error) => {
    throw error.code === 'ENOENT' ? new StepError('`readelf` (binutils) is not installed') : error;
  });
  const all = (pattern) => [...stdout.matchAll(pattern)].map(([, found]) => found);
  const elf = {
    machine: all(/^\s*Machine:\s+(.+)$/gm)[0],
    needed: all(/\(NEEDED\).*\[(.+)\]/g),
    // The old DT_RPATH, which is searched before LD_LIBRARY_PATH, does not count.
    runPath: all(/\(RUNPATH\).*\[(.*)\]/g)[0] ?? null,
    versions: [...new Set(all(/\bName: (\S+)\s+Flags:/g))],
    undefined: [],
    defined: new Set(),
  };
  //     12: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND  malloc@GLIBC_2.17 (3)
  for (const [, bind, section, name] of stdout.matchAll(
    /^\s*\d+: [0-9a-f]+\s+\S+\s+\S+\s+(\S+)\s+\S+\s+(?:\[.*\]\s+)?(\S+)\s+(\S+)/gm,
  )) {
    if (section !== 'UND') elf.defined.add(name.replace(/@.*$/, ''));
    else if (bind === 'GLOBAL' && !name.includes('@')) elf.undefined.push(name);
  }
  return elf;
}

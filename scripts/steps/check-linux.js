/** Checks that the native files of a Linux package find every symbol: in the package, in Node, or in the system. */
import { basename } from 'node:path';
import { readElf } from './elf.js';
import { isNewer } from './versions.js';

/** Newest versions that may be needed: those of Debian 12 and Ubuntu 22.04. */
const NEWEST = { GLIBC: '2.35', GLIBCXX: '3.4.30', CXXABI: '1.3.13', GCC: '12.0.0' };
const SYSTEM = /^(libc|libm|libdl|libpthread|librt|libstdc\+\+|libgcc_s|ld-linux[-\w]*)\.so\.\d+$/;
const MACHINES = { x64: 'Advanced Micro Devices X86-64', arm64: 'AArch64' };

/** Returns `{ problems, versions }`; `versions`: the newest of each library that is needed. `node`: symbols of Node. */
export async function checkLinuxFiles(platform, paths, node) {
  const elves = new Map();
  for (const path of paths) elves.set(basename(path), await readElf(path));
  const problems = [];
  const versions = {};
  for (const [name, elf] of elves) {
    if (elf.machine !== MACHINES[platform.replace(/^linux-/, '')]) problems.push(`${name} is for ${elf.machine}`);
    const own = elf.needed.filter((each) => elves.has(each));
    const foreign = elf.needed.filter((each) => !elves.has(each) && !SYSTEM.test(each));
    if (foreign.length > 0) problems.push(`${name} needs ${foreign.join(', ')}, which it may not find`);
    // An empty entry would be the current directory.
    if (elf.runPath !== '$ORIGIN') problems.push(`${name} has the run path ${elf.runPath}, not $ORIGIN`);
    const offered = [...node, ...closureOf(own, elves).flatMap((each) => [...elves.get(each).defined])];
    const known = new Set(offered);
    const lost = elf.undefined.filter((symbol) => !known.has(symbol));
    if (lost.length > 0) problems.push(`${name} needs ${lost.length} symbols that nothing defines: ${lost[0]}, …`);
    for (const version of elf.versions) note(version, versions);
  }
  for (const [library, version] of Object.entries(versions)) {
    if (NEWEST[library] === undefined) problems.push(`something needs a version of ${library}`);
    else if (isNewer(version, NEWEST[library])) problems.push(`${library} ${version} is newer than ${NEWEST[library]}`);
  }
  return { problems, versions };
}

/** Returns the libraries, and those of the package that they need. */
function closureOf(names, elves) {
  const found = new Set(names);
  for (const name of found) for (const each of elves.get(name).needed) if (elves.has(each)) found.add(each);
  return [...found];
}

function note(version, versions) {
  const [, library, number] = /^(\w+?)_([\d.]+)$/.exec(version) ?? [];
  if (library === undefined) return;
  if (versions[library] === undefined || isNewer(number, versions[library])) versions[library] = number;
}

/**
 * Checks that the native files of a Windows package find every symbol: in the package or in Windows. What they take from
 * Node, they look for in the running program when they first call it (native/binding/node_program.cc).
 */
import { basename } from 'node:path';
import { readPe } from './pe.js';

/** Libraries that every Windows 10 has; what they offer is not checked. */
const SYSTEM = /^(kernel32|advapi32|user32|shell32|ole32|ws2_32|crypt32|bcrypt|msvcrt)\.dll$|^api-ms-win-[\w-]+\.dll$/i;

/** Returns the problems. */
export async function checkWindowsFiles(paths) {
  const files = new Map();
  // Windows does not tell the case of names apart.
  for (const path of paths) files.set(basename(path).toLowerCase(), await readPe(path));
  const problems = [];
  for (const [name, { machine, imports }] of files) {
    if (machine !== 'IMAGE_FILE_MACHINE_AMD64') problems.push(`${name} is for ${machine}`);
    for (const { library, symbols } of imports) {
      const offered = files.get(library.toLowerCase())?.exports;
      if (offered === undefined) {
        if (!SYSTEM.test(library)) problems.push(`${name} needs ${library}, which it may not find`);
        continue;
      }
      const lost = symbols.filter((symbol) => !offered.has(symbol));
      if (lost.length > 0) problems.push(`${name} needs ${lost.length} symbols that ${library} lacks: ${lost[0]}, …`);
    }
  }
  return problems;
}

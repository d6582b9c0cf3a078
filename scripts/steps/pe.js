/** What a Windows library needs and offers, read by LLVM's llvm-readobj. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { StepError } from './run.js';

const MOST_OUTPUT = 256 * 1024 ** 2;

/**
 * Returns `{ machine, imports, exports }`: `imports`: `[{ library, symbols }]`, the symbols that it takes from each
 * library, `exports`: the set of those that it offers. Symbols without a name are left out.
 */
export async function readPe(path) {
  const text = await output(path);
  const imports = [...text.matchAll(/^Import \{\n([^}]*)\n\}/gm)].map(([, lines]) => ({
    library: /^ *Name: (.+)$/m.exec(lines)?.[1] ?? '',
    symbols: [...lines.matchAll(/Symbol: (\S+) \(\d+\)/g)].map(([, name]) => name),
  }));
  const exports = new Set([...text.matchAll(/^Export \{\n[^}]*? Name: (\S+)\n/gm)].map(([, name]) => name));
  return { machine: /^ *Machine: (\w+)/m.exec(text)?.[1], imports, exports };
}

async function output(path) {
  const args = ['--file-headers', '--coff-imports', '--coff-exports', path];
  try {
    const { stdout } = await promisify(execFile)('llvm-readobj', args, { maxBuffer: MOST_OUTPUT });
    return stdout;
  } catch (error) {
    if (error.code !== 'ENOENT') throw error;
    throw new StepError(
      "llvm-readobj is not installed; the check of a Windows package needs it. Install Debian's llvm.",
    );
  }
}

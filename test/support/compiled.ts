/** Compiles programs of the tests that are started often: the TypeScript loader takes most of such a start. */
import { mkdirSync, renameSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildSync } from 'esbuild';

const FOLDER = fileURLToPath(new URL('../../build/test-programs', import.meta.url));

/** Compiles a program of the tests with all that it imports of src/, and returns the path of the result. */
export function compiled(program: string): string {
  const outfile = join(FOLDER, `${basename(program, '.ts')}.mjs`);
  mkdirSync(FOLDER, { recursive: true });
  // Other test files may run it meanwhile.
  const fresh = `${outfile}.${String(process.pid)}`;
  const options = { platform: 'node', format: 'esm', target: 'node20', packages: 'external' } as const;
  buildSync({ ...options, entryPoints: [program], bundle: true, outfile: fresh, logLevel: 'error' });
  renameSync(fresh, outfile);
  return outfile;
}

/**
 * Programs in JavaScript, for processes that tests start often: with the TypeScript loader, most of such a process's
 * time is its start.
 */
import { mkdirSync, readdirSync, renameSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildSync } from 'esbuild';
import { childEnvironment } from '../../src/process/environment.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const FOLDER = join(ROOT, 'build', 'test-programs');

/**
 * Path of a file in dist/, if dist/ exists and is not older than any source file; otherwise undefined.
 * SVC_TEST_DIST=1 forces dist/, SVC_TEST_DIST=0 forces undefined.
 */
export function inDist(path: string): string | undefined {
  return usesDist() ? join(ROOT, 'dist', path) : undefined;
}

/** Engine processes run this; undefined: src/. */
export const BUILT_ENGINE: string | undefined = inDist('engine/main.js');

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

function usesDist(): boolean {
  const wanted = childEnvironment()['SVC_TEST_DIST'];
  if (wanted === '0' || wanted === '1') return wanted === '1';
  const written = statSync(join(ROOT, 'dist', 'cli', 'main.js'), { throwIfNoEntry: false })?.mtimeMs;
  return written !== undefined && newestSource(join(ROOT, 'src')) <= written;
}

function newestSource(folder: string): number {
  const times = readdirSync(folder, { withFileTypes: true }).map((entry) => {
    const path = join(folder, entry.name);
    return entry.isDirectory() ? newestSource(path) : statSync(path).mtimeMs;
  });
  return Math.max(0, ...times);
}

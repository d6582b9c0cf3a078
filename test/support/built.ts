/** Which build of svc the tests run: dist/ starts several times faster than src/ with the TypeScript loader. */
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { childEnvironment } from '../../src/process/environment.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/**
 * True if dist/ exists and is not older than any source file. SVC_TEST_DIST=1 forces true, SVC_TEST_DIST=0 false.
 */
export const USES_DIST: boolean = usesDist();

/** Engine processes run this; undefined: src/. */
export const BUILT_ENGINE: string | undefined = USES_DIST ? join(ROOT, 'dist', 'engine', 'main.cjs') : undefined;

function usesDist(): boolean {
  const wanted = childEnvironment()['SVC_TEST_DIST'];
  if (wanted === '0' || wanted === '1') return wanted === '1';
  const written = statSync(join(ROOT, 'dist', 'cli', 'main.cjs'), { throwIfNoEntry: false })?.mtimeMs;
  return written !== undefined && newestSource(join(ROOT, 'src')) <= written;
}

function newestSource(folder: string): number {
  const times = readdirSync(folder, { withFileTypes: true }).map((entry) => {
    const path = join(folder, entry.name);
    return entry.isDirectory() ? newestSource(path) : statSync(path).mtimeMs;
  });
  return Math.max(0, ...times);
}

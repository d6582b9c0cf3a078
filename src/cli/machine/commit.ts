import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { join } from 'node:path';

/** `src/cli` and `dist/cli` are equally deep. */
const GIT = fileURLToPath(new URL('../../../.git', import.meta.url));

/** Returns the commit of the checkout that svc runs from; null in an installed package. */
export function commit(): string | null {
  try {
    const head = readGit('HEAD').trim();
    const ref = /^ref: (.+)$/.exec(head)?.[1];
    return ref === undefined ? head : (looseRef(ref) ?? packedRef(ref));
  } catch {
    return null;
  }
}

function looseRef(ref: string): string | null {
  try {
    return readGit(ref).trim();
  } catch {
    return null;
  }
}

function packedRef(ref: string): string | null {
  const line = readGit('packed-refs')
    .split('\n')
    .find((each) => each.endsWith(` ${ref}`));
  return line?.split(' ', 1)[0] ?? null;
}

function readGit(name: string): string {
  return readFileSync(join(GIT, name), 'utf8');
}

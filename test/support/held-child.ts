/** Stops a child process of another process as soon as it exists, so that what it does has no end meanwhile. */
import { readdirSync, readFileSync } from 'node:fs';
import { waitFor } from './wait.ts';

/** Pids of the children of a process; Linux only. */
export function childrenOf(pid: number): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && parentOf(name) === pid)
    .map(Number);
}

function parentOf(name: string): number | null {
  try {
    // After the name of the program, which may have any characters: state, parent.
    const fields = readFileSync(`/proc/${name}/stat`, 'latin1')
      .replace(/^.*\) /s, '')
      .split(' ');
    return fields[0] === 'Z' ? null : Number(fields[1]);
  } catch {
    return null;
  }
}

/**
 * Whether a process runs a program of its own. Between fork and exec it is a copy of its parent, which waits for the
 * exec: stopping such a child would stop its parent too.
 */
function hasProgram(pid: number, parent: number): boolean {
  const [own, copied] = [pid, parent].map((each) => readFileSync(`/proc/${each}/cmdline`, 'latin1'));
  return own !== '' && own !== copied;
}

/** Resolves with the pid of the next child of `pid`, stopped. `skip`: number of children before it that go on. */
export async function holdNextChild(pid: number, { skip = 0 } = {}): Promise<number> {
  const known = new Set(childrenOf(pid));
  let left = skip;
  return await waitFor(
    'a child process',
    () => {
      for (const child of childrenOf(pid)) {
        if (known.has(child) || !hasProgram(child, pid)) continue;
        known.add(child);
        if (left-- > 0) continue;
        process.kill(child, 'SIGSTOP');
        return child;
      }
      return undefined;
    },
    { intervalMs: 1 },
  );
}

/** Growth of this process's memory, for tests of what svc holds on behalf of its clients and engines. */
import { setImmediate as turn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/** Collections after which unused memory is returned to the system. */
const COLLECTIONS = 3;

/**
 * Returns a function that returns the growth of the resident memory since now, in bytes. If it is above `bound`, garbage
 * is collected first: a process that gets little of the processor may have much of it.
 */
export function watchGrowth(bound: number): () => Promise<number> {
  const before = process.memoryUsage.rss();
  const grown = (): number => process.memoryUsage.rss() - before;
  return async () => {
    for (let time = 0; time < COLLECTIONS && grown() > bound; time += 1) {
      collect();
      await turn();
    }
    return grown();
  };
}

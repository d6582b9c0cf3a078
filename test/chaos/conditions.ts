/** Waits for a condition of the daemon. */
import { ask } from '../http/ask.ts';
import type { Condition } from '../../src/protocol/records.ts';
import type { Scene } from './scene.ts';
import { waitFor } from './wait.ts';

/** Resolves with `NAME STATUS: REASON` once the condition has that status. */
export async function conditionTurns(scene: Scene, name: string, wanted: RegExp): Promise<string> {
  return await waitFor(`${name} to be ${wanted.source}`, async () => {
    const found = (await conditions(scene)).find((each) => each.name === name);
    return found !== undefined && wanted.test(found.status) && `${name} ${found.status}: ${found.reason}`;
  });
}

/** Reads the conditions over the control socket, which shows every reason, or else over HTTP. */
async function conditions(scene: Scene): Promise<readonly Condition[]> {
  try {
    return (await scene.client.ready()).conditions;
  } catch {
    return ((await ask({ port: scene.port }, '/readyz')).json() as { conditions: Condition[] }).conditions;
  }
}

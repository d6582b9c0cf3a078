/** Waits for a condition of the daemon. */
import { ask } from '../http/ask.ts';
import type { Condition } from '../../src/protocol/records.ts';
import type { Scene } from './scene.ts';
import { waitFor } from './wait.ts';

/**
 * Resolves with `NAME STATUS: REASON` once the condition has that status and the reason has all these parts: those of
 * one fault may be found one after another.
 */
export async function conditionTurns(
  scene: Scene,
  name: string,
  wanted: RegExp,
  parts: readonly string[] = [],
): Promise<string> {
  return await waitFor(`${name} to be ${[wanted.source, ...parts].join(', ')}`, async () => {
    const { status, reason } = (await conditions(scene)).find((each) => each.name === name) ?? {};
    const turned = status !== undefined && wanted.test(status) && parts.every((part) => reason?.includes(part));
    return turned && `${name} ${status}: ${reason ?? ''}`;
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

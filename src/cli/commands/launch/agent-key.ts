/** The API key with which an agent comes in over HTTP, if svc needs one there. */
import { addKey, readKeyFile, removeKey } from '../../../home/key-file.ts';
import { variable } from '../../../process/environment.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { DAY_MS } from '../../../protocol/limits.ts';

/** If `svc launch` is killed, its key stays in the file for this long. */
const VALID_DAYS = 30;

export interface AgentKey {
  readonly key: string;
  /** Removes a key that was made for this agent. */
  remove(): Promise<void>;
}

/** True if the daemon refuses clients without a key. Throws CONFIG_INVALID. */
export function needsKey(keyFile: string): boolean {
  return readKeyFile(keyFile).length > 0;
}

/** Returns the key of SVC_API_KEY, or makes one of scope inference. Throws as addKey. */
export async function keyForAgent(keyFile: string, agent: string): Promise<AgentKey> {
  const own = variable('SVC_API_KEY');
  if (own !== undefined) return { key: own, remove: () => Promise.resolve() };
  const name = `launch-${agent}-${process.pid}-${Date.now().toString(36)}`;
  const expires_at = new Date(Date.now() + VALID_DAYS * DAY_MS).toISOString();
  const { key } = await addKey(keyFile, name, 'inference', { expires_at });
  return {
    key,
    async remove() {
      try {
        await removeKey(keyFile, name);
      } catch (error) {
        // The user may have removed it.
        if (!(error instanceof SvcError) || error.code !== 'NOT_FOUND') throw error;
      }
    },
  };
}

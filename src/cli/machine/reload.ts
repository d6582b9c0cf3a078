/** Applies a change of files to a running daemon. */
import { SvcError } from '../../protocol/errors.ts';
import type { ReloadRecord } from '../../protocol/routes.ts';
import { say } from '../terminal/output.ts';
import { fromDaemon } from './models.ts';

/**
 * Makes a running daemon read the config, the keys and the models again. A daemon that cannot is reported; the command
 * succeeds, because the change was written. Returns undefined then, or if none is running.
 */
export async function reload(): Promise<ReloadRecord | undefined> {
  try {
    return await fromDaemon((client) => client.reload());
  } catch (error) {
    say(`the running daemon has not applied the change: ${SvcError.from(error).message}`);
    return undefined;
  }
}

/** What a running daemon makes of a change. */
import { SvcError } from '../../protocol/errors.ts';
import type { ProviderRecord } from '../../protocol/records.ts';
import { fromDaemon } from '../models.ts';
import { say } from '../output.ts';

/** What is written is written: a daemon that cannot take it up is no failure of the command. */
export async function askDaemonToReload(): Promise<void> {
  try {
    await fromDaemon((client) => client.reload());
  } catch (error) {
    say(`the running daemon has not taken it up: ${SvcError.from(error).message}`);
  }
}

/** undefined: no daemon runs, or it does not have it. */
export async function recordInDaemon(name: string): Promise<ProviderRecord | undefined> {
  const providers = await fromDaemon((client) => client.providers()).catch(() => undefined);
  return providers?.find((provider) => provider.name === name);
}

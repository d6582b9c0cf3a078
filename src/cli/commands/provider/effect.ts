/** Applies a change of providers to a running daemon. */
import { SvcError } from '../../../protocol/errors.ts';
import type { ProviderRecord } from '../../../protocol/records.ts';
import { fromDaemon } from '../../machine/models.ts';
import { say } from '../../terminal/output.ts';

/** A daemon that cannot apply the change is reported; the command succeeds, because the change was written. */
export async function askDaemonToReload(): Promise<void> {
  try {
    await fromDaemon((client) => client.reload());
  } catch (error) {
    say(`the running daemon could not apply the change: ${SvcError.from(error).message}`);
  }
}

/** Returns undefined if no daemon is running, or it does not have the provider. */
export async function recordInDaemon(name: string): Promise<ProviderRecord | undefined> {
  const providers = await fromDaemon((client) => client.providers()).catch(() => undefined);
  return providers?.find((provider) => provider.name === name);
}

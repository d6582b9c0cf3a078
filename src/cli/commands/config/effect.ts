/** Effects of a change of the config file: variables may override it, and the daemon may need a restart. */
import { environmentSettings } from '../../../config/config.ts';
import { SvcError } from '../../../protocol/errors.ts';
import type { ReloadRecord } from '../../../protocol/routes.ts';
import { fromDaemon } from '../../machine/models.ts';
import { say } from '../../terminal/output.ts';
import { shown } from './value.ts';

/** Makes a running daemon reload the file. Reports on standard error if another value is still in force. */
export async function tellWhatHolds(name: string): Promise<{ restart_needed: boolean }> {
  const over = environmentSettings().find((each) => each.name === name);
  if (over !== undefined) say(`${over.variable} overrides the file here: ${name} is ${shown(over.value)}`);
  const reloaded = await reload();
  const restart_needed = reloaded?.restart_needed.includes(name) ?? false;
  if (restart_needed) say('restart the daemon to apply the change: svc restart');
  return { restart_needed };
}

/** Returns null if no daemon is running or it does not answer. */
async function reload(): Promise<ReloadRecord | null> {
  try {
    return (await fromDaemon((client) => client.reload())) ?? null;
  } catch (error) {
    if (error instanceof SvcError) return null;
    throw error;
  }
}

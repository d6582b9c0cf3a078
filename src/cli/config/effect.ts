/** What a change of the config file changes: the file is not all there is. */
import { environmentSettings } from '../../config/config.ts';
import { SvcError } from '../../protocol/errors.ts';
import type { ReloadRecord } from '../../protocol/routes.ts';
import { fromDaemon } from '../models.ts';
import { say } from '../output.ts';
import { shown } from './value.ts';

/** Has a running daemon read the file; says on standard error when the value in force is still another one. */
export async function tellWhatHolds(name: string): Promise<{ restart_needed: boolean }> {
  const over = environmentSettings().find((each) => each.name === name);
  if (over !== undefined) say(`${over.variable} wins over the file here: ${name} is ${shown(over.value)}`);
  const reloaded = await reload();
  const restart_needed = reloaded?.restart_needed.includes(name) ?? false;
  if (restart_needed) say('the running daemon takes it up when it is restarted: svc stop && svc start');
  return { restart_needed };
}

/** null: no daemon runs, or it does not answer. */
async function reload(): Promise<ReloadRecord | null> {
  try {
    return (await fromDaemon((client) => client.reload())) ?? null;
  } catch (error) {
    if (error instanceof SvcError) return null;
    throw error;
  }
}

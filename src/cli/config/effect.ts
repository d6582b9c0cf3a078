/** What a change of the config file changes: the file is not all there is. */
import { environmentSettings } from '../../config/config.ts';
import { SvcError } from '../../protocol/errors.ts';
import { fromDaemon } from '../models.ts';
import { say } from '../output.ts';
import { shown } from './value.ts';

/** Says on standard error when the value in force is another one. `restart_needed`: a daemon runs with the old one. */
export async function tellWhatHolds(name: string): Promise<{ restart_needed: boolean }> {
  const over = environmentSettings().find((each) => each.name === name);
  if (over !== undefined) say(`${over.variable} wins over the file here: ${name} is ${shown(over.value)}`);
  const pid = await daemonPid();
  if (pid === null) return { restart_needed: false };
  say(`the running daemon (pid ${String(pid)}) takes it up when it is restarted: svc stop && svc start`);
  return { restart_needed: true };
}

/** null: none runs, or it does not answer. */
async function daemonPid(): Promise<number | null> {
  try {
    return (await fromDaemon((client) => client.status()))?.pid ?? null;
  } catch (error) {
    if (error instanceof SvcError) return null;
    throw error;
  }
}

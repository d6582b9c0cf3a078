/** Effects of a change of the config file: variables may override it, and the daemon may need a restart. */
import { environmentSettings } from '../../../config/config.ts';
import { reload } from '../../machine/reload.ts';
import { say } from '../../terminal/output.ts';
import { shown } from './value.ts';

/** Makes a running daemon reload the file. Reports on standard error if another value is still in force. */
export async function tellWhatHolds(name: string): Promise<{ restart_needed: boolean }> {
  const over = environmentSettings().find((each) => each.name === name);
  if (over !== undefined) say(`${over.variable} overrides the file here: ${name} is ${shown(over.value)}`);
  const restart_needed = (await reload())?.restart_needed.includes(name) ?? false;
  if (restart_needed) say('restart the daemon to apply the change: svc restart');
  return { restart_needed };
}

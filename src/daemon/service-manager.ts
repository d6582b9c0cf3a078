/**
 * Notifies systemd (sd_notify protocol) that the daemon is ready or stopping, and twice per watchdog interval that
 * its event loop runs.
 *
 * The daemon itself sends the messages: systemd ignores other processes of the unit (NotifyAccess=main).
 * Without NOTIFY_SOCKET all methods do nothing.
 */
import { getSystemErrorName } from 'node:util';
import { takeVariable } from '../process/environment.ts';
import type { Logger } from '../log/log.ts';
import type { ProcessAddon } from '../process/addon.ts';

export class ServiceManager {
  readonly #log: Logger;
  readonly #process: Pick<ProcessAddon, 'notify'> | null;
  readonly #socket: string | undefined;
  readonly #watchdogMs: number | null;
  #watchdog: NodeJS.Timeout | undefined;

  /** Removes the protocol's variables, so that engine processes do not see them. @param addon null: nothing is sent */
  constructor(log: Logger, addon: Pick<ProcessAddon, 'notify'> | null) {
    this.#log = log;
    this.#process = addon;
    this.#socket = takeVariable('NOTIFY_SOCKET');
    const pid = takeVariable('WATCHDOG_PID');
    const microseconds = Number(takeVariable('WATCHDOG_USEC') ?? 0);
    this.#watchdogMs =
      microseconds > 0 && (pid ?? String(process.pid)) === String(process.pid) ? microseconds / 1000 : null;
  }

  /** `status` is one line for `systemctl status`. */
  ready(status: string): void {
    this.#send('READY=1', `STATUS=${status}`);
    if (this.#watchdogMs === null || this.#socket === undefined) return;
    this.#watchdog ??= setInterval(() => this.#send('WATCHDOG=1'), this.#watchdogMs / 2);
  }

  stopping(): void {
    this.#send('STOPPING=1', 'STATUS=stopping');
  }

  /** Stops feeding the watchdog, which must continue during a drain. Call last. */
  close(): void {
    clearInterval(this.#watchdog);
  }

  #send(...messages: string[]): void {
    if (this.#socket === undefined) return;
    const error = this.#process?.notify(this.#socket, messages.join('\n'));
    if (error === 0) return;
    const reason = error === undefined ? 'process.node is not loaded' : getSystemErrorName(-error);
    this.#log.error({ reason }, 'cannot notify systemd');
  }
}

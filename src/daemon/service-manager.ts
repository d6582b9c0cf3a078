/**
 * What systemd is told of the daemon, by the protocol of sd_notify: that it is ready or
 * stops, and twice in the time of the watchdog that its event loop turns.
 *
 * The daemon itself sends the messages: of no other process of the unit would systemd take them (NotifyAccess=main).
 * Without NOTIFY_SOCKET nothing here does anything.
 */
import { getSystemErrorName } from 'node:util';
import { takeVariable } from '../config/environment.ts';
import type { Logger } from '../log/log.ts';
import type { ProcessAddon } from '../process/addon.ts';

export class ServiceManager {
  readonly #log: Logger;
  readonly #process: Pick<ProcessAddon, 'notify'> | null;
  readonly #socket: string | undefined;
  readonly #watchdogMs: number | null;
  #watchdog: NodeJS.Timeout | undefined;

  /** Takes the variables of the protocol: they are not for engine processes. @param addon null: nothing can be sent */
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

  /** The process may end only after this. The watchdog is fed until here: a drain takes its time. */
  close(): void {
    clearInterval(this.#watchdog);
  }

  #send(...messages: string[]): void {
    if (this.#socket === undefined) return;
    const error = this.#process?.notify(this.#socket, messages.join('\n'));
    if (error === 0) return;
    const reason = error === undefined ? 'process.node is not loaded' : getSystemErrorName(-error);
    this.#log.error({ reason }, 'systemd cannot be told of the daemon');
  }
}

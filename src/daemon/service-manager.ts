/**
 * What systemd is told of the daemon, by the protocol of sd_notify: that it is ready or
 * stops, and twice in the time of the watchdog that its event loop turns.
 *
 * Node has no Unix datagram sockets; systemd's own `systemd-notify` sends the messages. Without
 * NOTIFY_SOCKET nothing here does anything.
 */
import { spawn } from 'node:child_process';
import { childEnvironment, takeVariable } from '../config/environment.ts';
import type { Logger } from '../log/log.ts';

export class ServiceManager {
  readonly #log: Logger;
  readonly #socket: string | undefined;
  readonly #watchdogMs: number | null;
  #watchdog: NodeJS.Timeout | undefined;

  /** Takes the variables of the protocol: engine processes must not report in our name. */
  constructor(log: Logger) {
    this.#log = log;
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
    const child = spawn('systemd-notify', messages, {
      stdio: 'ignore',
      env: childEnvironment({ NOTIFY_SOCKET: this.#socket }),
    });
    child.once('error', (error) => this.#log.error({ err: error }, 'systemd-notify cannot be run'));
    child.unref();
  }
}

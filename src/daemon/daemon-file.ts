/** This daemon's own `daemon.json`, from its start to its end. */
import { utimesSync } from 'node:fs';
import { writeDaemonFile, type DaemonFile } from '../config/daemon-file.ts';
import { lastExit } from '../config/last-exit.ts';
import { identifyProcess } from '../config/process-identity.ts';
import type { Logger } from '../log/log.ts';
import type { LastExit } from '../protocol/records.ts';

export class OwnDaemonFile {
  readonly #path: string;
  readonly #log: Logger;
  /** How the daemon before this one ended. */
  readonly lastExit: LastExit | null;
  #file: DaemonFile | null = null;

  /** REQUIRES: this process is the daemon of the home. */
  constructor(path: string, log: Logger) {
    this.#path = path;
    this.#log = log;
    this.lastExit = lastExit(path);
  }

  begin(facts: Omit<DaemonFile, 'exit' | 'last_exit' | 'process'>): void {
    this.#file = { ...facts, process: identifyProcess(facts.pid), exit: null, last_exit: this.lastExit };
    this.#write(this.#file);
  }

  /** A sign of life. */
  touch(): void {
    try {
      const now = new Date();
      utimesSync(this.#path, now, now);
    } catch {
      // Somebody removed it; the daemon can do without.
      if (this.#file !== null) this.#write(this.#file);
    }
  }

  end(exit: LastExit): void {
    if (this.#file !== null) this.#write({ ...this.#file, exit });
  }

  /** A daemon that cannot say on disk that it lives still serves. */
  #write(file: DaemonFile): void {
    try {
      writeDaemonFile(this.#path, file);
    } catch (error) {
      this.#log.error({ err: error }, 'cannot write daemon.json');
    }
  }
}

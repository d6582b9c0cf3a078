/** This daemon's own `daemon.json`, from its start to its end. */
import { mkdirSync, utimesSync } from 'node:fs';
import { dirname } from 'node:path';
import { readDaemonFile, writeDaemonFile, type DaemonFile } from '../config/daemon-file.ts';
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
    if (this.#file === null) return;
    // Somebody removed it, or wrote over it: commands that read it would find no daemon.
    if (readDaemonFile(this.#path) === null) this.#write(this.#file);
    else setTime(this.#path, new Date());
  }

  end(exit: LastExit): void {
    if (this.#file !== null) this.#write({ ...this.#file, exit });
  }

  /** A daemon that cannot say on disk that it lives still serves. */
  #write(file: DaemonFile): void {
    try {
      mkdirSync(dirname(this.#path), { recursive: true, mode: 0o700 });
      writeDaemonFile(this.#path, file);
    } catch (error) {
      this.#log.error({ err: error }, 'cannot write daemon.json');
    }
  }
}

function setTime(path: string, time: Date): void {
  try {
    utimesSync(path, time, time);
  } catch {
    // A disk that cannot be written; the daemon can do without.
  }
}

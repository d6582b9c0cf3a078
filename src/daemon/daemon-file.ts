/** This daemon's own `daemon.json`, from its start to its end. */
import { utimes } from 'node:fs/promises';
import { dirname } from 'node:path';
import { loadDaemonFile, writeDaemonFile, type DaemonFile } from '../home/daemon-file.ts';
import { lastExit } from '../home/last-exit.ts';
import { settingsSet } from '../process/environment.ts';
import { identifyProcess } from '../process/process-identity.ts';
import { makeDirectory } from '../files/make-directory.ts';
import { whyOf } from '../files/why.ts';
import type { Logger } from '../log/log.ts';
import type { LastExit } from '../protocol/records.ts';

export class OwnDaemonFile {
  readonly #path: string;
  readonly #log: Logger;
  /** How the previous daemon ended. */
  readonly lastExit: LastExit | null;
  #file: DaemonFile | null = null;
  #trouble: string | null = null;

  /** REQUIRES: this process is the daemon of the home. */
  constructor(path: string, log: Logger) {
    this.#path = path;
    this.#log = log;
    this.lastExit = lastExit(path);
  }

  /** Error of the last write. null: the file is up to date. */
  get trouble(): string | null {
    return this.#trouble;
  }

  /** Writes the file. No method here rejects: a daemon that cannot write its file still serves. */
  async begin(facts: Omit<DaemonFile, 'exit' | 'last_exit' | 'process' | 'settings'>): Promise<void> {
    this.#file = {
      ...facts,
      process: identifyProcess(facts.pid),
      settings: settingsSet(),
      exit: null,
      last_exit: this.lastExit,
    };
    await this.#write(this.#file);
  }

  /** Updates the file's time, which shows that the daemon is alive. */
  async touch(): Promise<void> {
    if (this.#file === null) return;
    const now = new Date();
    // If the file was removed or overwritten, commands would find no daemon: write it again.
    const isThere = (await loadDaemonFile(this.#path).catch(() => null)) !== null;
    const isTouched =
      isThere &&
      (await utimes(this.#path, now, now).then(
        () => true,
        () => false,
      ));
    if (isTouched) this.#trouble = null;
    else await this.#write(this.#file);
  }

  async end(exit: LastExit): Promise<void> {
    if (this.#file !== null) await this.#write({ ...this.#file, exit });
  }

  async #write(file: DaemonFile): Promise<void> {
    try {
      await makeDirectory(dirname(this.#path));
      await writeDaemonFile(this.#path, file);
      this.#trouble = null;
    } catch (error) {
      const trouble = `cannot write ${this.#path}: ${whyOf(error)}`;
      if (trouble !== this.#trouble) this.#log.error({ err: error }, 'cannot write daemon.json');
      this.#trouble = trouble;
    }
  }
}

/** The daemon's side of the console: its page, and what it has besides the public API. */
import { reachable } from '../../config/reachable.ts';
import { addKey, readKeyFile, removeKey } from '../../home/key-file.ts';
import type { Paths } from '../../home/paths.ts';
import { shownKey } from '../../home/shown-key.ts';
import type { Logger } from '../../log/log.ts';
import type { ConsoleLink, SessionKey } from '../../protocol/console.ts';
import type { DoctorRecord } from '../../protocol/doctor.ts';
import { SvcError } from '../../protocol/errors.ts';
import type { KeyWishes, NewKey, ShownKey } from '../../protocol/keys.ts';
import type { LiveEvent } from '../../protocol/live.ts';
import type { LogEvent } from '../../protocol/logs.ts';
import type { UsageRecord } from '../../protocol/usage.ts';
import { usageByDay } from '../../usage/summary.ts';
import { inBackground } from '../in-background.ts';
import { Doctor } from './doctor.ts';
import { LinkFile } from './link-file.ts';
import { live, type LiveOptions, type LiveSource } from './live.ts';
import { logRecords, type LogQuery } from './log-records.ts';
import { PageFiles, type PageFile } from './page-files.ts';
import { Sessions, TOKEN_MS } from './sessions.ts';

export interface ConsoleOptions extends LiveSource {
  readonly paths: Pick<Paths, 'stateDir' | 'logFile' | 'keyFile'>;
  readonly log: Logger;
  /** Aborted when the daemon ends. */
  readonly ending: AbortSignal;
  /** Address of the HTTP listener as bound, `host:port`. null: it does not listen. */
  http(): string | null;
  /** Milliseconds since 1970. Absent: the clock. */
  readonly now?: () => number;
  /** Folder of the page. Absent: that of the package. */
  readonly page?: string;
  /** Runs `svc doctor`. Absent: in a process of its own. */
  doctor?(): Promise<DoctorRecord>;
}

export class Console {
  readonly #options: ConsoleOptions;
  readonly #files: PageFiles;
  readonly #linkFile: LinkFile;
  readonly #doctor: Doctor;
  readonly sessions: Sessions;

  constructor(options: ConsoleOptions) {
    this.#options = options;
    this.#files = new PageFiles(options.page);
    this.sessions = new Sessions(options.now);
    this.#doctor = new Doctor(options.ending);
    this.#linkFile = new LinkFile(options.paths.stateDir, options.log);
  }

  /** null: the page has no such file, or this build has no page. */
  page(name: string): Promise<PageFile | null> {
    return this.#files.find(name);
  }

  /** Makes a link that signs a browser in, once. `file`: as in ConsoleLink. Throws NOT_READY, CANNOT_WRITE. */
  async link(file: boolean): Promise<ConsoleLink> {
    const http = this.#options.http();
    if (http === null) throw new SvcError('NOT_READY', 'svc does not serve HTTP yet', { retryAfterSeconds: 1 });
    const { token, expires_at } = this.sessions.newToken();
    const url = `http://${reachable(http)}/#signin=${token}`;
    return { url, expires_at, file: file ? await this.#linkFile.write(url, TOKEN_MS) : null };
  }

  /** Exchanges the token of a link for a key. Throws UNAUTHORIZED. */
  signIn(token: string): SessionKey {
    const session = this.sessions.signIn(token);
    inBackground(this.#options.log, 'removing the sign-in link', this.#linkFile.remove());
    return session;
  }

  /** Samples of what the daemon does now. */
  live(options: LiveOptions, signal: AbortSignal): AsyncIterable<LiveEvent> {
    return live(this.#options, options, this.#untilTheEnd(signal));
  }

  /** Records of the daemon's own log. Rejects with CANNOT_WRITE, FORBIDDEN. */
  logs(query: LogQuery, signal: AbortSignal): AsyncIterable<LogEvent> {
    return logRecords(this.#options.paths.logFile, query, this.#untilTheEnd(signal));
  }

  /** Runs `svc doctor`. Rejects with TIMEOUT, INTERNAL. */
  async doctor(): Promise<DoctorRecord> {
    return await (this.#options.doctor?.() ?? this.#doctor.examine());
  }

  /** As `svc usage`. Rejects with the error of the file system. */
  async usage(days: number, by: { readonly byKey: boolean }): Promise<readonly UsageRecord[]> {
    return await usageByDay(this.#options.paths.stateDir, days, by);
  }

  /** Throws CONFIG_INVALID. */
  keys(): readonly ShownKey[] {
    return readKeyFile(this.#options.paths.keyFile).map(shownKey);
  }

  /** Throws INVALID_REQUEST, CONFIG_INVALID, CANNOT_WRITE, BUSY. */
  async addKey({ name, scope = 'inference', ...limits }: KeyWishes): Promise<NewKey> {
    const { entry, key } = await addKey(this.#options.paths.keyFile, name, scope, limits);
    return { ...shownKey(entry), key };
  }

  /** Throws NOT_FOUND, CONFIG_INVALID, CANNOT_WRITE, BUSY. */
  async removeKey(name: string): Promise<void> {
    await removeKey(this.#options.paths.keyFile, name);
  }

  #untilTheEnd(signal: AbortSignal): AbortSignal {
    return AbortSignal.any([signal, this.#options.ending]);
  }

  /** Never rejects. REQUIRES: `ending` is aborted. */
  async close(): Promise<void> {
    await this.#doctor.close();
    await this.#linkFile.remove().catch(() => undefined);
  }
}

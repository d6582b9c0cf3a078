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
import { usageOf } from '../../usage/summary.ts';
import { inBackground } from '../in-background.ts';
import type { ConsoleServices, LiveOptions, LogQuery, PageFile } from '../services.ts';
import { Doctor } from './doctor.ts';
import { LinkFile } from './link-file.ts';
import { live, type LiveSource } from './live.ts';
import { logRecords } from './log-records.ts';
import { PageFiles } from './page-files.ts';
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

export class Console implements ConsoleServices {
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

  page(name: string): Promise<PageFile | null> {
    return this.#files.find(name);
  }

  async link(file: boolean): Promise<ConsoleLink> {
    const http = this.#options.http();
    if (http === null) throw new SvcError('NOT_READY', 'svc does not serve HTTP yet', { retryAfterSeconds: 1 });
    const { token, expires_at } = this.sessions.newToken();
    const url = `http://${reachable(http)}/#signin=${token}`;
    return { url, expires_at, file: file ? await this.#linkFile.write(url, TOKEN_MS) : null };
  }

  signIn(token: string): SessionKey {
    const session = this.sessions.signIn(token);
    inBackground(this.#options.log, 'removing the sign-in link', this.#linkFile.remove());
    return session;
  }

  live(options: LiveOptions, signal: AbortSignal): AsyncIterable<LiveEvent> {
    return live(this.#options, options, this.#untilTheEnd(signal));
  }

  logs(query: LogQuery, signal: AbortSignal): AsyncIterable<LogEvent> {
    return logRecords(this.#options.paths.logFile, query, this.#untilTheEnd(signal));
  }

  async doctor(): Promise<DoctorRecord> {
    return await (this.#options.doctor?.() ?? this.#doctor.examine());
  }

  async usage(days: number, by: { readonly byKey: boolean }): Promise<readonly UsageRecord[]> {
    return await usageOf(this.#options.paths.stateDir, days, by);
  }

  keys(): readonly ShownKey[] {
    return readKeyFile(this.#options.paths.keyFile).map(shownKey);
  }

  async addKey({ name, scope = 'inference', ...limits }: KeyWishes): Promise<NewKey> {
    const { entry, key } = await addKey(this.#options.paths.keyFile, name, scope, limits);
    return { ...shownKey(entry), key };
  }

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

/** The daemon's side of the console: its page, and what it has besides the public API. */
import { reachable } from '../../config/address.ts';
import type { Paths } from '../../home/paths.ts';
import type { Logger } from '../../log/log.ts';
import type { ConsoleLink, SessionKey } from '../../protocol/console.ts';
import { SvcError } from '../../protocol/errors.ts';
import { inBackground } from '../in-background.ts';
import type { ConsoleServices, PageFile } from '../services.ts';
import { LinkFile } from './link-file.ts';
import { PageFiles } from './page-files.ts';
import { Sessions, TOKEN_MS } from './sessions.ts';

export interface ConsoleOptions {
  readonly paths: Pick<Paths, 'stateDir'>;
  readonly log: Logger;
  /** Address of the HTTP listener as bound, `host:port`. null: it does not listen. */
  http(): string | null;
  /** Milliseconds since 1970. Absent: the clock. */
  readonly now?: () => number;
  /** Folder of the page. Absent: that of the package. */
  readonly page?: URL;
}

export class Console implements ConsoleServices {
  readonly #options: ConsoleOptions;
  readonly #files: PageFiles;
  readonly #linkFile: LinkFile;
  readonly sessions: Sessions;

  constructor(options: ConsoleOptions) {
    this.#options = options;
    this.#files = new PageFiles(options.page);
    this.sessions = new Sessions(options.now);
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

  /** Never rejects. */
  async close(): Promise<void> {
    await this.#linkFile.remove().catch(() => undefined);
  }
}

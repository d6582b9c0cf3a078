/**
 * A file that leads a browser to a sign-in link. A browser is given the name of this file, not the link: other users of
 * the machine see the arguments of every process, but cannot read the file.
 */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import writeFileAtomic from 'write-file-atomic';
import { errorOfFiles } from '../../files/svc-error.ts';
import { makeDirectory } from '../../files/make-directory.ts';
import type { Logger } from '../../log/log.ts';
import { inBackground } from '../in-background.ts';

export class LinkFile {
  readonly #folder: string;
  readonly #log: Logger;
  #timer: NodeJS.Timeout | null = null;

  constructor(folder: string, log: Logger) {
    this.#folder = folder;
    this.#log = log;
  }

  get #path(): string {
    return join(this.#folder, 'console-link.html');
  }

  /** Resolves with the path of the file, which is removed after `keepMs`. Throws CANNOT_WRITE. */
  async write(url: string, keepMs: number): Promise<string> {
    try {
      await makeDirectory(this.#folder);
      await writeFileAtomic(this.#path, pageTo(url), { mode: 0o600 });
    } catch (error) {
      throw errorOfFiles(error);
    }
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = setTimeout(() => inBackground(this.#log, 'removing the sign-in link', this.remove()), keepMs).unref();
    return this.#path;
  }

  /** Does nothing without a file. Rejects with the error of the file system. */
  async remove(): Promise<void> {
    if (this.#timer === null) return;
    clearTimeout(this.#timer);
    this.#timer = null;
    await rm(this.#path, { force: true });
  }
}

/** The link has no characters that HTML gives a meaning. */
function pageTo(url: string): string {
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0;url=${url}">
<title>svc</title>
<p><a href="${url}">Open the console of svc</a></p>
</html>
`;
}

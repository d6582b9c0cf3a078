/** The files of the console's page, from the package. */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { errorOfFiles } from '../../files/svc-error.ts';
import { ownFile } from '../../process/own-files.ts';

/** A file of the console's page. */
export interface PageFile {
  readonly contentType: string;
  readonly text: string;
  readonly etag: string;
}

const TYPES: Readonly<Record<string, string>> = {
  'index.html': 'text/html; charset=utf-8',
  'console.js': 'text/javascript; charset=utf-8',
  'console.css': 'text/css; charset=utf-8',
  'icon.svg': 'image/svg+xml; charset=utf-8',
};

/** In a checkout, too, the page is that of the last build. */
const FOLDER = 'dist/console';

export class PageFiles {
  readonly #folder: string | null;
  readonly #read = new Map<string, PageFile>();

  /** `folder`: tests have their own. */
  constructor(folder: string | null = null) {
    this.#folder = folder;
  }

  /** Reads each file once. null: the page has no such file, or was not built. Throws CANNOT_WRITE. */
  async find(name: string): Promise<PageFile | null> {
    if (!Object.hasOwn(TYPES, name)) return null;
    const known = this.#read.get(name);
    if (known !== undefined) return known;
    const text = await readFile(join(this.#folder ?? ownFile(FOLDER), name), 'utf8').catch((error: unknown) => {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
      throw errorOfFiles(error);
    });
    if (text === null) return null;
    const digest = createHash('sha256').update(text).digest('base64url');
    const file = { contentType: TYPES[name] ?? '', text, etag: `"${digest}"` };
    this.#read.set(name, file);
    return file;
  }
}

/**
 * Size limit of the prefix files of all models together, and their directories.
 *
 * Each engine has access only to the directory of its own model, because another model's file may have taken over its
 * engine. So no engine knows how much the others store, and only the daemon can limit the sum. It watches the
 * directories, and deletes the least recently used files of all models as soon as they exceed the limit together. Until
 * then, the limit may be exceeded by what the engines write in a tenth of a second. An engine treats a deleted file as
 * a miss. It limits its own directory, too, so the limit also holds in a single engine without a daemon.
 *
 * Engines are not trusted here: whatever lies in the directories counts, and can be deleted.
 */
import { watch, type FSWatcher } from 'node:fs';
import { lstat, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { makeDirectorySync } from '../../files/make-directory.ts';
import { prefixName } from './prefixes.ts';

/** From the first change in a directory to the check: a file that is written changes often. */
const GATHER_MS = 100;
/** Interval of checks if the system cannot watch a directory. */
const UNWATCHED_MS = 1000;

interface Saved {
  readonly path: string;
  readonly bytes: number;
  readonly usedAt: number;
}

export interface PrefixRoomOptions {
  /** Has a directory for each model. */
  readonly folder: string;
  /** Size limit of all files. */
  readonly bytes: number;
  /** Called when files could not be listed or deleted. */
  readonly onFailure: (error: unknown) => void;
}

export class PrefixRoom {
  readonly #options: PrefixRoomOptions;
  readonly #watchers = new Map<string, FSWatcher>();
  #bytes: number;
  #timer: NodeJS.Timeout | null = null;
  #interval: NodeJS.Timeout | null = null;
  #checking: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(options: PrefixRoomOptions) {
    this.#options = options;
    this.#bytes = options.bytes;
  }

  /** Returns the directory for a model's engine; creates and watches it. @param path its file */
  open(path: string): string {
    const directory = join(this.#options.folder, prefixName(path));
    try {
      makeDirectorySync(directory);
    } catch {
      return directory; // The engine reports nothing either: it works without a disk tier.
    }
    this.#watch(directory);
    this.#soon();
    return directory;
  }

  setLimit(bytes: number): void {
    this.#bytes = bytes;
    this.#soon();
  }

  /** Deletes files until the rest fits the limit; resolves when done. Rejects never. */
  check(): Promise<void> {
    this.#checking = this.#checking.then(() => this.#makeRoom()).catch(this.#options.onFailure);
    return this.#checking;
  }

  close(): void {
    this.#isClosed = true;
    for (const watcher of this.#watchers.values()) watcher.close();
    if (this.#timer !== null) clearTimeout(this.#timer);
    if (this.#interval !== null) clearInterval(this.#interval);
  }

  /** The directory may have been deleted and created again since it was last watched. */
  #watch(directory: string): void {
    this.#watchers.get(directory)?.close();
    this.#watchers.delete(directory);
    try {
      const watcher = watch(directory, { persistent: false }, () => this.#soon());
      watcher.on('error', () => this.#checkOften());
      this.#watchers.set(directory, watcher);
    } catch {
      this.#checkOften();
    }
  }

  #checkOften(): void {
    if (!this.#isClosed) this.#interval ??= setInterval(() => this.#soon(), UNWATCHED_MS).unref();
  }

  #soon(): void {
    if (this.#isClosed || this.#timer !== null) return;
    const check = (): void => {
      this.#timer = null;
      void this.check();
    };
    this.#timer = setTimeout(check, GATHER_MS).unref();
  }

  async #makeRoom(): Promise<void> {
    const files = await filesIn(this.#options.folder);
    let total = files.reduce((sum, { bytes }) => sum + bytes, 0);
    for (const { path, bytes } of files) {
      if (total <= this.#bytes) break;
      await rm(path, { force: true, recursive: true });
      total -= bytes;
    }
  }
}

/** What lies in the directories of the models, least recently used first. */
async function filesIn(folder: string): Promise<Saved[]> {
  const found: Saved[] = [];
  for (const model of await entriesOf(folder)) {
    const directory = join(folder, model);
    for (const name of await entriesOf(directory)) {
      const path = join(directory, name);
      const entry = await lstat(path).catch(() => null);
      if (entry === null) continue;
      // Engines write files only. The size of anything else is not known, so it is the first to go.
      if (entry.isFile()) found.push({ path, bytes: entry.size, usedAt: entry.mtimeMs });
      else await rm(path, { force: true, recursive: true });
    }
  }
  return found.sort((one, other) => one.usedAt - other.usedAt);
}

async function entriesOf(directory: string): Promise<string[]> {
  try {
    return await readdir(directory);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return [];
    throw error;
  }
}

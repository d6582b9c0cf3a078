/**
 * Facts that are dear to read from files, such as the header of a model, whose vocabulary may have 100 MB. Each state of
 * the files is read once: calls meanwhile wait for the same result, later ones get it from memory. So a client that asks
 * a thousand times costs one read.
 */
import { stat } from 'node:fs/promises';
import { bulkhead } from 'cockatiel';

/** Files that are remembered. */
const MOST_KEPT = 64;
/** More than one: a file on a disk that hangs must not delay all others. */
const READS_AT_ONCE = 2;

export interface FileFactsOptions<Facts> {
  /** Reads the files of one model, in their order. */
  read(paths: readonly string[]): Promise<Facts>;
  /** Returns false for facts that are too large to be kept. Absent: all are kept. */
  keeps?(facts: Facts): boolean;
}

interface Known<Facts> {
  readonly state: string;
  readonly facts: Promise<Facts>;
}

export class FileFacts<Facts> {
  readonly #options: FileFactsOptions<Facts>;
  /** By paths; the oldest first. */
  readonly #known = new Map<string, Known<Facts>>();
  readonly #reads = bulkhead(READS_AT_ONCE, Infinity);

  constructor(options: FileFactsOptions<Facts>) {
    this.#options = options;
  }

  /**
   * Resolves with the facts of the files as they are now. Rejects as `read`; that is remembered, too, unless the system
   * refused the file.
   */
  async of(...paths: readonly string[]): Promise<Facts> {
    const key = paths.join('\0');
    const state = await stateOf(paths);
    // Reading a missing file fails at once, with the reason.
    if (state === null) return await this.#options.read(paths);
    const known = this.#known.get(key);
    if (known?.state === state) return await known.facts;
    const fresh = { state, facts: this.#reads.execute(() => this.#options.read(paths)) };
    this.#known.delete(key);
    this.#known.set(key, fresh);
    for (const oldest of this.#known.keys()) {
      if (this.#known.size <= MOST_KEPT) break;
      this.#known.delete(oldest);
    }
    const forget = (): void => {
      if (this.#known.get(key) === fresh) this.#known.delete(key);
    };
    fresh.facts.then(
      (facts) => {
        if (this.#options.keeps?.(facts) === false) forget();
      },
      (error: unknown) => {
        if (isOfSystem(error)) forget();
      },
    );
    return await fresh.facts;
  }
}

/** Identity and version of the files; null: one of them is missing. */
async function stateOf(paths: readonly string[]): Promise<string | null> {
  try {
    const found = await Promise.all(paths.map((path) => stat(path)));
    return found.map(({ dev, ino, size, mtimeMs, ctimeMs }) => [dev, ino, size, mtimeMs, ctimeMs].join(' ')).join('\n');
  } catch {
    return null;
  }
}

/** The next try may succeed, although the file is the same. */
function isOfSystem(error: unknown): boolean {
  const { code, cause } = error as NodeJS.ErrnoException;
  return typeof (cause as NodeJS.ErrnoException | undefined)?.code === 'string' || /^E[A-Z0-9]+$/.test(code ?? '');
}

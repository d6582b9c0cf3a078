/**
 * Stored responses of the Responses API, on disk: a later request continues them (`previous_response_id`) or reads
 * them.
 *
 * One file for each response, `ID.json`, mode 0600, in a folder of its own. It has the whole conversation, so no
 * response needs another one, and any may be deleted. Files go when they are too old, and when all together are too
 * large: then the oldest of the owner who has most, so that no owner deletes the responses of others. A file that cannot
 * be parsed is as good as absent.
 *
 * A background response also has a journal, `background/ID.jsonl` (background/journal.ts), which counts and goes with
 * it.
 */
import { readdir, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import * as v from 'valibot';
import writeFileAtomic from 'write-file-atomic';
import { makeDirectory } from '../files/make-directory.ts';
import { ifMissing } from '../files/missing.ts';
import { openToRead, readText } from '../files/open-file.ts';
import { errorOfFiles } from '../files/svc-error.ts';
import { parsedJson } from '../protocol/foreign-text.ts';
import { LIMITS } from '../protocol/limits.ts';
import { isResponseId } from '../protocol/openai/responses/items.ts';
import type { StoredResponse } from '../protocol/openai/responses/response.ts';

export interface ResponseStoreOptions {
  readonly dir: string;
  /** False: no response is stored, and stored ones are deleted. */
  readonly enabled: boolean;
  readonly keepMs: number;
  /** Maximum bytes of all files together. */
  readonly mostBytes: number;
  /** Called when files cannot be read or deleted in the background. */
  onFailure(error: unknown): void;
  /** Milliseconds since 1970. */
  readonly now?: () => number;
}

/** Maximum bytes of one response: a longer conversation can only be sent whole. */
const RESPONSE_BYTES: number = LIMITS.bodyBytes;
/** Maximum number of stored responses. */
const MOST_RESPONSES = 20_000;
const TIDY_MS = 3_600_000;
const FILE = /^(resp_[0-9a-f]{32})\./;
const JOURNALS = 'background';

const FileSchema = v.looseObject({
  owner: v.string(),
  stored_at: v.number(),
  response: v.looseObject({ id: v.string(), output: v.array(v.looseObject({ type: v.string() })) }),
  input: v.array(v.looseObject({ type: v.string() })),
});

/** The owner is the first field. */
const HEAD = /^\{"owner":("(?:[^"\\]|\\.)*")/;
const HEAD_BYTES = 1024;

interface Entry {
  readonly owner: string;
  readonly bytes: number;
  readonly storedAt: number;
}

export class ResponseStore {
  readonly #options: ResponseStoreOptions;
  readonly #now: () => number;
  /** Stored responses by id, the oldest first. */
  readonly #entries = new Map<string, Entry>();
  #bytes = 0;
  #opened: Promise<void> | null = null;
  readonly #timer: NodeJS.Timeout;

  constructor(options: ResponseStoreOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.#timer = setInterval(() => this.#tidyInBackground(), TIDY_MS).unref();
  }

  get enabled(): boolean {
    return this.#options.enabled;
  }

  /** Maximum bytes of one response. */
  get mostBytes(): number {
    return Math.min(RESPONSE_BYTES, this.#options.mostBytes);
  }

  /** Finds the files of earlier daemons, and deletes those that must go. Rejects with CANNOT_WRITE. */
  async open(): Promise<void> {
    this.#opened ??= this.#open().catch((error: unknown) => {
      this.#opened = null;
      throw errorOfFiles(error);
    });
    await this.#opened;
  }

  close(): void {
    clearInterval(this.#timer);
  }

  /** Resolves with false if the response, with its journal, is too large to be stored. Rejects with CANNOT_WRITE. */
  async put(record: StoredResponse): Promise<boolean> {
    const text = JSON.stringify(record);
    const bytes = Buffer.byteLength(text);
    const { id } = record.response;
    const all = bytes + (await sizeOf(this.journalOf(id)).catch(refuse));
    if (!this.enabled || bytes > this.mostBytes || all > this.#options.mostBytes) return false;
    await this.open();
    await makeDirectory(this.#options.dir).catch(refuse);
    await writeFileAtomic(this.#fileOf(id), text, { mode: 0o600, fsync: false }).catch(refuse);
    this.#forget(id);
    this.#remember(id, { owner: record.owner, bytes: all, storedAt: record.stored_at });
    await this.#tidy(id).catch(refuse);
    return true;
  }

  /** Returns null unless `owner` has a response with this id. Rejects with CANNOT_WRITE. */
  async find(id: string, owner: string): Promise<StoredResponse | null> {
    if (!this.enabled || !isResponseId(id)) return null;
    await this.open();
    const entry = this.#entries.get(id);
    if (entry === undefined || this.#isOld(entry)) return null;
    const record = await this.#read(id).catch(refuse);
    return record?.owner === owner ? record : null;
  }

  journalOf(id: string): string {
    return path.join(this.#options.dir, JOURNALS, `${id}.jsonl`);
  }

  /** Ids of the journals whose responses are not stored. Rejects with CANNOT_WRITE. */
  async unfinished(): Promise<string[]> {
    await this.open();
    const names = await namesIn(path.dirname(this.journalOf(''))).catch(refuse);
    return names.flatMap((name) => FILE.exec(name)?.[1] ?? []).filter((id) => !this.#entries.has(id));
  }

  /** Deletes the journal of a response that cannot be stored with it. Rejects with CANNOT_WRITE. */
  async dropJournal(id: string): Promise<void> {
    await rm(this.journalOf(id), { force: true }).catch(refuse);
  }

  /** Bytes of a stored response; 0: there is none. */
  bytesOf(id: string): number {
    return this.#entries.get(id)?.bytes ?? 0;
  }

  /** Resolves with true if `owner` had a response with this id. Rejects with CANNOT_WRITE. */
  async remove(id: string, owner: string): Promise<boolean> {
    if ((await this.find(id, owner)) === null) return false;
    await this.#delete(id).catch(refuse);
    return true;
  }

  async #open(): Promise<void> {
    const { dir, enabled } = this.#options;
    if (!enabled) {
      await rm(dir, { recursive: true, force: true });
      return;
    }
    const found: (readonly [id: string, Entry])[] = [];
    for (const name of await namesIn(dir)) {
      const [, id] = FILE.exec(name) ?? [];
      if (id === undefined) continue;
      // What a write left behind that did not end.
      if (name !== `${id}.json`) {
        await rm(path.join(dir, name), { force: true });
        continue;
      }
      const file = path.join(dir, name);
      const { size, mtimeMs } = await stat(file);
      const bytes = size + (await sizeOf(this.journalOf(id)));
      found.push([id, { owner: await ownerIn(file), bytes, storedAt: mtimeMs }]);
    }
    found.sort(([, a], [, b]) => a.storedAt - b.storedAt);
    for (const [id, entry] of found) this.#remember(id, entry);
    await this.#tidy();
  }

  async #read(id: string): Promise<StoredResponse | null> {
    // It may have been deleted meanwhile, or by a person.
    const result = v.safeParse(FileSchema, parsedJson(await readText(this.#fileOf(id)).catch(ifMissing(''))));
    return result.success ? (result.output as unknown as StoredResponse) : null;
  }

  /** Deletes responses that are too old, then others but `kept` until the limits hold. */
  async #tidy(kept?: string): Promise<void> {
    const old = [...this.#entries].filter(([, entry]) => this.#isOld(entry));
    for (const [id] of old) await this.#delete(id);
    while (this.#bytes > this.#options.mostBytes || this.#entries.size > MOST_RESPONSES) {
      const id = this.#surplus(kept);
      if (id === undefined) return;
      await this.#delete(id);
    }
  }

  /** The oldest response but `kept` of the owner who has most of what there is too much of: bytes, or responses. */
  #surplus(kept: string | undefined): string | undefined {
    const isTooLarge = this.#bytes > this.#options.mostBytes;
    const held = new Map<string, number>();
    for (const { owner, bytes } of this.#entries.values())
      held.set(owner, (held.get(owner) ?? 0) + (isTooLarge ? bytes : 1));
    const owners = [...held].sort(([, a], [, b]) => b - a).map(([owner]) => owner);
    const others = [...this.#entries].filter(([id]) => id !== kept);
    for (const owner of owners) {
      const [id] = others.find(([, entry]) => entry.owner === owner) ?? [];
      if (id !== undefined) return id;
    }
    return undefined;
  }

  #tidyInBackground(): void {
    this.open()
      .then(() => this.#tidy())
      .catch((error: unknown) => this.#options.onFailure(error));
  }

  async #delete(id: string): Promise<void> {
    this.#forget(id);
    // The journal first: alone it would be taken for a running response.
    await rm(this.journalOf(id), { force: true });
    await rm(this.#fileOf(id), { force: true });
  }

  #remember(id: string, entry: Entry): void {
    this.#entries.set(id, entry);
    this.#bytes += entry.bytes;
  }

  #forget(id: string): void {
    this.#bytes -= this.bytesOf(id);
    this.#entries.delete(id);
  }

  #isOld({ storedAt }: Entry): boolean {
    return storedAt + this.#options.keepMs < this.#now();
  }

  #fileOf(id: string): string {
    return path.join(this.#options.dir, `${id}.json`);
  }
}

/** Empty: the file cannot be parsed. */
async function ownerIn(path: string): Promise<string> {
  const file = await openToRead(path);
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(HEAD_BYTES), 0, HEAD_BYTES, 0);
    const [, owner = '""'] = HEAD.exec(buffer.toString('utf8', 0, bytesRead)) ?? [];
    return JSON.parse(owner) as string;
  } finally {
    await file.close();
  }
}

/** Bytes of a file; 0: there is none. */
async function sizeOf(file: string): Promise<number> {
  return await stat(file).then(({ size }) => size, ifMissing(0));
}

/** A missing folder counts as empty: the first response creates it. */
async function namesIn(dir: string): Promise<string[]> {
  return await readdir(dir).catch(ifMissing([]));
}

function refuse(error: unknown): never {
  throw errorOfFiles(error);
}

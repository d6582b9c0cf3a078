/**
 * Journal of a background response: the request, then the events of its answer, one JSON text on each line.
 *
 * A line is written before its event is sent. So if the daemon is killed, the file has every event that a client may
 * have read, and the tokens of its content. (The file is not synced: a power failure may cost the last second, after
 * which no client is connected any more.) A line without its end was cut off while it was written, and counts as
 * absent.
 */
import type { FileHandle } from 'node:fs/promises';
import * as v from 'valibot';
import { ifMissing } from '../../files/missing.ts';
import { openToAppend, openToCreate, readText } from '../../files/open-file.ts';
import { errorOfFiles } from '../../files/svc-error.ts';
import type { Caller } from '../../protocol/caller.ts';
import { SvcError, type ErrorRecord } from '../../protocol/errors.ts';
import { parsedJson } from '../../protocol/foreign-text.ts';
import type { AnswerEvent } from '../../protocol/generate.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { ContentItem, Placed } from '../../protocol/openai/responses/items.ts';
import type { TraceHeaders } from '../../protocol/traces/context.ts';

/** The first line. */
export interface Asked {
  readonly id: string;
  /** Client that may read the response (`shareOf`). */
  readonly owner: string;
  readonly caller: Caller;
  /** Trace context of the request. Absent: it was not traced, or by a version that kept none. */
  readonly trace?: TraceHeaders;
  /** Milliseconds since 1970. */
  readonly at: number;
  /** Seed of the sampler, unless the request has one. */
  readonly seed: number;
  /** Body of the request, without its input. */
  readonly body: unknown;
  /** All items of the conversation, those of earlier responses included. */
  readonly items: readonly Placed<ContentItem>[];
}

/**
 * A further line. `at`: milliseconds since 1970. An answer that was neither cancelled nor failed ends with `finish`.
 */
export type Entry =
  | { readonly at: number; readonly event: AnswerEvent }
  | { readonly at: number; readonly error: ErrorRecord }
  | { readonly at: number; readonly cancelled: true }
  /** A daemon took up the answer of an earlier one. */
  | { readonly at: number; readonly taken_up: true };

export interface Story {
  readonly asked: Asked;
  readonly entries: readonly Entry[];
}

/** Maximum bytes of a journal: a request, and an answer of the same size. */
const MOST_BYTES = 2 * LIMITS.bodyBytes;

const AskedSchema = v.looseObject({
  id: v.string(),
  owner: v.string(),
  caller: v.looseObject({ kind: v.string(), scope: v.string() }),
  trace: v.exactOptional(v.record(v.string(), v.string())),
  at: v.number(),
  seed: v.number(),
  items: v.array(v.looseObject({ item: v.looseObject({ type: v.string() }), place: v.string() })),
});
const at = v.number();
const EntrySchema = v.union([
  v.looseObject({ at, event: v.looseObject({ type: v.string() }) }),
  v.looseObject({ at, error: v.looseObject({ code: v.string(), message: v.string() }) }),
  v.looseObject({ at, cancelled: v.literal(true) }),
  v.looseObject({ at, taken_up: v.literal(true) }),
]);

export class Journal {
  readonly #file: FileHandle;
  #bytes: number;

  private constructor(file: FileHandle, bytes: number) {
    this.#file = file;
    this.#bytes = bytes;
  }

  /** REQUIRES: its folder exists, the file does not. Rejects with CANNOT_WRITE. */
  static async create(path: string, asked: Asked): Promise<Journal> {
    try {
      const journal = new Journal(await openToCreate(path), 0);
      await journal.#write([asked]);
      return journal;
    } catch (error) {
      throw errorOfFiles(error);
    }
  }

  /**
   * Reads a journal and continues it; cuts off an incomplete line. null: its first line cannot be used. Rejects with
   * CANNOT_WRITE.
   */
  static async resume(path: string): Promise<{ readonly journal: Journal; readonly story: Story } | null> {
    try {
      const text = await readText(path);
      const story = parseJournal(text);
      if (story === null) return null;
      const whole = Buffer.byteLength(text.slice(0, text.lastIndexOf('\n') + 1));
      const file = await openToAppend(path);
      await file.truncate(whole);
      return { journal: new Journal(file, whole), story };
    } catch (error) {
      throw errorOfFiles(error);
    }
  }

  /** Resolves when they are in the file. Rejects with CANNOT_WRITE, or REQUEST_TOO_LARGE if the answer is too long. */
  async append(entries: readonly Entry[]): Promise<void> {
    try {
      await this.#write(entries);
    } catch (error) {
      throw errorOfFiles(error);
    }
  }

  get bytes(): number {
    return this.#bytes;
  }

  async close(): Promise<void> {
    await this.#file.close();
  }

  async #write(lines: readonly (Asked | Entry)[]): Promise<void> {
    const bytes = Buffer.from(lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
    // The last lines always fit.
    if (this.#bytes + bytes.length > MOST_BYTES && lines.some((line) => 'event' in line)) {
      throw new SvcError('REQUEST_TOO_LARGE', 'the answer is too long for a background response');
    }
    await this.#file.appendFile(bytes);
    this.#bytes += bytes.length;
  }
}

/** null: there is no such journal, or its first line cannot be used. Rejects with the file system's error. */
export async function readJournal(path: string): Promise<Story | null> {
  return parseJournal(await readText(path).catch(ifMissing('')));
}

function parseJournal(text: string): Story | null {
  const [first = '', ...rest] = text.split('\n').slice(0, -1);
  const asked = v.safeParse(AskedSchema, parsedJson(first));
  if (!asked.success) return null;
  const entries = rest.map((line) => v.safeParse(EntrySchema, parsedJson(line)));
  const firstBad = entries.findIndex(({ success }) => !success);
  const good = firstBad === -1 ? entries : entries.slice(0, firstBad);
  return {
    asked: asked.output as unknown as Asked,
    entries: good.map(({ output }) => output as Entry),
  };
}

/** True if nothing can follow. */
export function isLast(entry: Entry): boolean {
  return 'error' in entry || 'cancelled' in entry || ('event' in entry && entry.event.type === 'finish');
}

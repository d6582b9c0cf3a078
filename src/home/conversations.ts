/**
 * Conversations of this user, if the config keeps them (`history.enabled`): one file each, `ID.json`, mode 0600, in a
 * folder of its own, mode 0700. Files go when they are too old, and the oldest when all together are too large. A file
 * that cannot be parsed is as good as absent.
 */
import { randomBytes } from 'node:crypto';
import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import * as v from 'valibot';
import writeFileAtomic from 'write-file-atomic';
import { ifMissing } from '../files/missing.ts';
import { readText } from '../files/open-file.ts';
import { whyOf } from '../files/why.ts';
import { SvcError } from '../protocol/errors.ts';
import { parsedJson } from '../protocol/foreign-text.ts';
import { MessageSchema, type Message } from '../protocol/generate.ts';
import { LIMITS } from '../protocol/limits.ts';
import { makePrivateDirectory } from './paths.ts';

const FILE = /^(\d{8}-\d{6}-[0-9a-f]{4})\.json$/;
const TITLE_CHARACTERS = 60;
/** A longer conversation could not be sent anyway. */
const MOST_BYTES = LIMITS.bodyBytes;

const ConversationSchema = v.object({
  id: v.string(),
  created_at: v.string(),
  updated_at: v.string(),
  /** Local model that answered last; null: a provider did. */
  model: v.nullable(v.string()),
  messages: v.pipe(v.array(MessageSchema), v.maxLength(LIMITS.messages)),
});
export type Conversation = v.InferOutput<typeof ConversationSchema>;

export interface ConversationSummary extends Omit<Conversation, 'messages'> {
  /** Number of the user's messages. */
  readonly turns: number;
  /** Beginning of the first of them. */
  readonly title: string;
  readonly size_bytes: number;
}

export interface ConversationsOptions {
  readonly dir: string;
  readonly keepMs: number;
  /** Maximum bytes of all files together. */
  readonly mostBytes: number;
  /** Milliseconds since 1970. */
  readonly now?: () => number;
}

interface Stored {
  readonly id: string;
  readonly bytes: number;
  readonly updatedAt: number;
}

/** Several processes may use the same folder: each writes its own conversation. */
export class Conversations {
  readonly #options: ConversationsOptions;
  readonly #now: () => number;

  constructor(options: ConversationsOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
  }

  /** An id for a new conversation; nothing is written yet. */
  newId(): string {
    const time = new Date(this.#now()).toISOString().slice(0, 19).replace(/[-:]/g, '').replace('T', '-');
    return `${time}-${randomBytes(2).toString('hex')}`;
  }

  /**
   * Writes a conversation, then deletes what is too old or too much. Resolves with false if it is too long to be kept.
   * @throws SvcError CANNOT_WRITE; CONFIG_INVALID if the folder is not safe to use
   */
  async put(conversation: Omit<Conversation, 'created_at' | 'updated_at'>): Promise<boolean> {
    const { dir, mostBytes } = this.#options;
    const updated_at = new Date(this.#now()).toISOString();
    const before = await this.find(conversation.id);
    const record: Conversation = { ...conversation, created_at: before?.created_at ?? updated_at, updated_at };
    const text = JSON.stringify(record);
    if (Buffer.byteLength(text) > Math.min(MOST_BYTES, mostBytes) || record.messages.length > LIMITS.messages)
      return false;
    makePrivateDirectory(dir);
    await writeFileAtomic(this.#fileOf(record.id), text, { mode: 0o600, fsync: false }).catch(refuse);
    await this.#tidy(record.id);
    return true;
  }

  /** Lists the conversations, the newest first. @throws SvcError CANNOT_WRITE */
  async list(): Promise<ConversationSummary[]> {
    const found: ConversationSummary[] = [];
    for (const { id, bytes } of await this.#stored()) {
      const conversation = await this.find(id);
      if (conversation !== null) found.push(summaryOf(conversation, bytes));
    }
    return found;
  }

  /** The newest conversation; null: there is none. @throws SvcError CANNOT_WRITE */
  async last(): Promise<Conversation | null> {
    for (const { id } of await this.#stored()) {
      const conversation = await this.find(id);
      if (conversation !== null) return conversation;
    }
    return null;
  }

  /** null: there is none with this id, or it is too old. */
  async find(id: string): Promise<Conversation | null> {
    if (!FILE.test(`${id}.json`)) return null;
    try {
      const { size, mtimeMs } = await stat(this.#fileOf(id));
      if (size > MOST_BYTES || this.#isOld(mtimeMs)) return null;
      const read = v.safeParse(ConversationSchema, parsedJson(await readText(this.#fileOf(id))));
      return read.success ? { ...read.output, id } : null;
    } catch {
      return null;
    }
  }

  /** Resolves with true if there was one. @throws SvcError CANNOT_WRITE */
  async remove(id: string): Promise<boolean> {
    const isThere = (await this.#stored()).some((each) => each.id === id);
    if (isThere) await rm(this.#fileOf(id), { force: true }).catch(refuse);
    return isThere;
  }

  /** Deletes all. Returns how many there were. @throws SvcError CANNOT_WRITE */
  async clear(): Promise<number> {
    const stored = await this.#stored();
    for (const { id } of stored) await rm(this.#fileOf(id), { force: true }).catch(refuse);
    return stored.length;
  }

  /** Never deletes the conversation that was just written. */
  async #tidy(written: string): Promise<void> {
    let bytes = 0;
    for (const each of await this.#stored()) {
      bytes += each.bytes;
      const isTooMuch = bytes > this.#options.mostBytes || this.#isOld(each.updatedAt);
      if (isTooMuch && each.id !== written) await rm(this.#fileOf(each.id), { force: true }).catch(refuse);
    }
  }

  /** The files, the newest first. */
  async #stored(): Promise<Stored[]> {
    const names = await readdir(this.#options.dir).catch(ifMissing([])).catch(refuse);
    const stored: Stored[] = [];
    for (const name of names) {
      const [, id] = FILE.exec(name) ?? [];
      if (id === undefined) continue;
      // Deleted meanwhile by another process, perhaps.
      const found = await stat(join(this.#options.dir, name)).catch(() => null);
      if (found?.isFile() === true) stored.push({ id, bytes: found.size, updatedAt: found.mtimeMs });
    }
    return stored.sort((a, b) => b.updatedAt - a.updatedAt || (a.id < b.id ? 1 : -1));
  }

  #isOld(updatedAt: number): boolean {
    return updatedAt + this.#options.keepMs < this.#now();
  }

  #fileOf(id: string): string {
    return join(this.#options.dir, `${id}.json`);
  }
}

/** The text of a message; other contents are named in brackets. */
export function textOf({ content }: Message): string {
  if (typeof content === 'string') return content;
  return content.map((part) => (part.type === 'text' ? part.text : `[${part.type}]`)).join(' ');
}

function summaryOf({ messages, ...rest }: Conversation, bytes: number): ConversationSummary {
  const asked = messages.filter(({ role }) => role === 'user');
  const first = asked[0] === undefined ? '' : textOf(asked[0]);
  const title = first.replace(/[\s\p{Cc}]+/gu, ' ').trim();
  const isLong = title.length > TITLE_CHARACTERS;
  return {
    ...rest,
    turns: asked.length,
    title: isLong ? `${title.slice(0, TITLE_CHARACTERS)}…` : title,
    size_bytes: bytes,
  };
}

function refuse(error: unknown): never {
  const { code } = error as NodeJS.ErrnoException;
  if (error instanceof SvcError || code === undefined) throw error;
  throw new SvcError('CANNOT_WRITE', `the kept conversations cannot be used: ${whyOf(error)}`, {
    hint: 'make their folder usable, or turn them off: svc config set history.enabled false',
    cause: error,
  });
}

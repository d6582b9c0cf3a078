/**
 * Who is let in over TCP. No key is needed while there is none and only this machine can connect;
 * otherwise everybody needs one. A file of keys that is gone although keys were seen lets nobody in, also after a
 * restart (config/keys-seen.ts); a file with an empty list opens. The file of keys is looked at with every request, so that a key that
 * was added or removed counts at once, whoever did it; it is read again only when it has changed.
 */
import { timingSafeEqual } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { digestOfKey, findKeyFile, readKeyFile, type KeyEntry } from '../config/key-file.ts';
import type { KeysSeen } from '../config/keys-seen.ts';
import type { Logger } from '../log/log.ts';
import { SvcError } from '../protocol/errors.ts';
import type { KeyScope } from '../protocol/keys.ts';
import type { CheckStatus } from '../protocol/records.ts';
import { isLoopback } from './listeners.ts';
import type { Access, Admission } from './services.ts';

interface Key {
  readonly name: string;
  readonly digest: Buffer;
  readonly scope: KeyScope;
}

export class Keys implements Access {
  readonly #path: string;
  readonly #seen: KeysSeen;
  readonly #log: Logger;
  /** As of `#version`; null: the file cannot be used, and nobody is let in. */
  #keys: readonly Key[] | null = null;
  /** null: read it again with the next request, for what kept it from being read may pass. */
  #version: string | null = null;
  /** The version that the log has a complaint about. */
  #complaint: string | null = null;
  /** Why nobody is let in; null: those with a key are. */
  #trouble: string | null = null;
  /** Keys were seen since the start: the marker may not have been written. */
  #hadKeys = false;

  constructor(path: string, seen: KeysSeen, log: Logger) {
    this.#path = path;
    this.#seen = seen;
    this.#log = log;
  }

  /** Whether there is any. Throws CONFIG_INVALID when the file cannot be used. */
  exist(): boolean {
    return readKeyFile(this.#path).length > 0;
  }

  async admit(localAddress: string | undefined, keys: readonly string[]): Promise<Admission | null> {
    const known = await this.#current();
    if (known === null) return null;
    if (known.length === 0 && localAddress !== undefined && isLoopback(localAddress))
      return { scope: 'admin', key: null };
    const found = keys.flatMap((key) => find(key, known) ?? []);
    const best = found.find(({ scope }) => scope === 'admin') ?? found[0];
    return best === undefined ? null : { scope: best.scope, key: best.name };
  }

  /** For the condition `api_keys`. */
  async check(): Promise<{ readonly status: CheckStatus; readonly reason: string }> {
    const keys = await this.#current();
    if (keys === null) return { status: 'warn', reason: this.#trouble ?? 'the API keys cannot be read' };
    return { status: 'ok', reason: keys.length === 0 ? 'none: programs on this machine need none' : 'needed over TCP' };
  }

  async #current(): Promise<readonly Key[] | null> {
    const version = await versionOf(this.#path);
    if (version === this.#version) return this.#keys;
    this.#version = version;
    try {
      const isFirst = this.#keys === null && this.#complaint === null;
      this.#keys = this.#read().map(({ sha256, ...entry }) => ({
        ...entry,
        digest: Buffer.from(sha256, 'hex'),
      }));
      this.#trouble = null;
      this.#complaint = null;
      if (!isFirst || this.#keys.length > 0) this.#log.info({ keys: this.#keys.length }, 'API keys read');
    } catch (error) {
      const { message, hint = '' } = SvcError.from(error);
      this.#keys = null;
      this.#version = null;
      this.#trouble = `nobody is let in over TCP: ${message}; ${hint}`;
      if (this.#complaint !== version)
        this.#log.error({ err: error }, 'the API keys cannot be read: nobody is let in over TCP');
      this.#complaint = version;
    }
    return this.#keys;
  }

  /** Throws CONFIG_INVALID, also for a file that is gone with the keys that were in it. */
  #read(): readonly KeyEntry[] {
    const keys = findKeyFile(this.#path);
    if (keys === null) {
      if (!this.#hadKeys && !this.#seen.isSet) return [];
      throw new SvcError('CONFIG_INVALID', `the file of API keys ${this.#path} is gone, and there were keys in it`, {
        hint: `put it back, or make a new key: svc key add NAME; if there is to be none: remove ${this.#seen.path} and restart`,
      });
    }
    this.#hadKeys = keys.length > 0;
    try {
      this.#seen.set(this.#hadKeys);
    } catch (err) {
      this.#log.warn({ err }, 'it cannot be noted that there are API keys: after a restart their loss goes unseen');
    }
    return keys;
  }
}

/** All are compared, each in constant time: how long it takes tells nothing of any. */
function find(key: string, known: readonly Key[]): Key | null {
  const digest = digestOfKey(key);
  let found: Key | null = null;
  for (const each of known) if (timingSafeEqual(digest, each.digest)) found = each;
  return found;
}

/** Another one after every change; empty while there is no file. */
async function versionOf(path: string): Promise<string> {
  try {
    const { ino, size, mtimeNs, ctimeNs } = await stat(path, { bigint: true });
    return [ino, size, mtimeNs, ctimeNs].join(' ');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return code === 'ENOENT' ? '' : `cannot be looked at: ${String(code)}`;
  }
}

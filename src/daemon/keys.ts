/**
 * Who is let in over TCP. No key is needed while there is none and only this machine can connect;
 * otherwise everybody needs one. The file of keys is looked at with every request, so that a key that
 * was added or removed counts at once, whoever did it; it is read again only when it has changed.
 */
import { timingSafeEqual } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { digestOfKey, readKeyFile } from '../config/key-file.ts';
import type { Logger } from '../log/log.ts';
import type { KeyScope } from '../protocol/keys.ts';
import { isLoopback } from './listeners.ts';
import type { Access, Admission } from './services.ts';

interface Key {
  readonly name: string;
  readonly digest: Buffer;
  readonly scope: KeyScope;
}

export class Keys implements Access {
  readonly #path: string;
  readonly #log: Logger;
  /** As of `#version`; null: the file cannot be used, and nobody is let in. */
  #keys: readonly Key[] | null = [];
  /** null: read it again with the next request, for what kept it from being read may pass. */
  #version: string | null = '';
  /** The version that the log has a complaint about. */
  #complaint: string | null = null;

  constructor(path: string, log: Logger) {
    this.#path = path;
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

  async #current(): Promise<readonly Key[] | null> {
    const version = await versionOf(this.#path);
    if (version === this.#version) return this.#keys;
    this.#version = version;
    try {
      this.#keys = readKeyFile(this.#path).map(({ sha256, ...entry }) => ({
        ...entry,
        digest: Buffer.from(sha256, 'hex'),
      }));
      this.#log.info({ keys: this.#keys.length }, 'API keys read');
    } catch (error) {
      this.#keys = null;
      this.#version = null;
      if (this.#complaint !== version)
        this.#log.error({ err: error }, 'the API keys cannot be read: nobody is let in over TCP');
      this.#complaint = version;
    }
    return this.#keys;
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

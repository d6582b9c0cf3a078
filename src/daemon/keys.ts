/**
 * Access control over TCP. Without keys, clients on this machine are admitted; otherwise every client needs a key.
 * If the key file disappears after keys were seen, all clients are refused, also after a restart
 * (home/keys-seen.ts); a key file with an empty list admits this machine again. Every request checks the version of
 * the key file, so that added and removed keys take effect at once; the file is read only when it has changed. The
 * keys of the console's sessions are in memory only (console/sessions.ts).
 */
import { timingSafeEqual } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { digestOfKey, findKeyFile, readKeyFile, type KeyEntry } from '../home/key-file.ts';
import type { KeysSeen } from '../home/keys-seen.ts';
import type { Logger } from '../log/log.ts';
import { SvcError } from '../protocol/errors.ts';
import { given } from '../protocol/given.ts';
import { CONSOLE_KEY, type KeyLimits, type KeyScope } from '../protocol/keys.ts';
import type { CheckStatus } from '../protocol/records.ts';
import type { Sessions } from './console/sessions.ts';
import { isLoopback } from './listeners.ts';

export interface Admission {
  readonly scope: KeyScope;
  /** Name of the API key. null: none was needed. */
  readonly key: string | null;
  /** Limits of the key. Absent: it has none. */
  readonly limits?: KeyLimits;
}

interface Key {
  readonly name: string;
  readonly digest: Buffer;
  readonly scope: KeyScope;
  /** Milliseconds since 1970. null: never. */
  readonly expiresAt: number | null;
  readonly limits?: KeyLimits;
}

export class Keys {
  readonly #path: string;
  readonly #seen: KeysSeen;
  readonly #log: Logger;
  readonly #sessions: Pick<Sessions, 'has' | 'isEmpty'>;
  /** Keys as of `#version`; null: the file cannot be used, and all clients are refused. */
  #keys: readonly Key[] | null = null;
  /** Version of the file that was read. null: read it again with the next request; the error may be temporary. */
  #version: string | null = null;
  /** Version of the file whose error was logged. */
  #complaint: string | null = null;
  /** Why all clients are refused; null: those with a key are admitted. */
  #trouble: string | null = null;
  /** Keys were seen since the start, even if the marker file could not be written. */
  #hadKeys = false;

  /** `sessions`: keys that `svc open` has given to browsers. */
  constructor(path: string, seen: KeysSeen, log: Logger, sessions: Pick<Sessions, 'has' | 'isEmpty'>) {
    this.#path = path;
    this.#seen = seen;
    this.#log = log;
    this.#sessions = sessions;
  }

  /** True if there is a key. Throws CONFIG_INVALID when the file cannot be used. */
  exist(): boolean {
    return readKeyFile(this.#path).length > 0;
  }

  /**
   * Resolves with the scope of a caller that connected to `localAddress` with these keys; `admin` where no key is
   * needed. null: refused. Never rejects.
   */
  async admit(localAddress: string | undefined, keys: readonly string[]): Promise<Admission | null> {
    // Also while the key file cannot be used: the owner got these keys through the control socket.
    if (keys.some((key) => this.#sessions.has(key))) return { scope: 'admin', key: CONSOLE_KEY };
    const known = await this.#current();
    if (known === null) return null;
    if (known.length === 0 && localAddress !== undefined && isLoopback(localAddress))
      return { scope: 'admin', key: null };
    const found = keys.flatMap((key) => find(key, known) ?? []).filter((key) => !isExpired(key));
    const best = found.find(({ scope }) => scope === 'admin') ?? found[0];
    return best === undefined ? null : { scope: best.scope, key: best.name, ...given({ limits: best.limits }) };
  }

  /** True if there is a valid key of this name. Rejects with NOT_READY while the key file cannot be used. */
  async has(name: string): Promise<boolean> {
    if (name === CONSOLE_KEY && !this.#sessions.isEmpty) return true;
    const known = await this.#current();
    if (known === null) {
      throw new SvcError('NOT_READY', this.#trouble ?? 'the API keys cannot be read', { retryAfterSeconds: 1 });
    }
    return known.some((key) => key.name === name && !isExpired(key));
  }

  /** Resolves with the condition `api_keys`. */
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
      this.#keys = this.#read().map(keyOf);
      this.#trouble = null;
      this.#complaint = null;
      if (!isFirst || this.#keys.length > 0) this.#log.info({ keys: this.#keys.length }, 'API keys read');
    } catch (error) {
      const { message, hint = '' } = SvcError.from(error);
      this.#keys = null;
      this.#version = null;
      this.#trouble = `requests over TCP are refused: ${message}; ${hint}`;
      if (this.#complaint !== version)
        this.#log.error({ err: error }, 'the API keys cannot be read: all requests over TCP are refused');
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
      this.#log.warn({ err }, 'cannot write keys-seen: after a restart a lost key file would not be noticed');
    }
    return keys;
  }
}

function isExpired({ expiresAt }: Key): boolean {
  return expiresAt !== null && Date.now() >= expiresAt;
}

function keyOf({ name, scope, sha256, expires_at, models, tokens_per_day, tokens_per_month }: KeyEntry): Key {
  const limits = given({ models, tokens_per_day, tokens_per_month });
  return {
    name,
    scope,
    digest: Buffer.from(sha256, 'hex'),
    expiresAt: expires_at === undefined ? null : Date.parse(expires_at),
    ...given({ limits: Object.keys(limits).length === 0 ? undefined : limits }),
  };
}

/** Returns the matching key. Compares all keys in constant time, so that timing reveals nothing. */
function find(key: string, known: readonly Key[]): Key | null {
  const digest = digestOfKey(key);
  let found: Key | null = null;
  for (const each of known) if (timingSafeEqual(digest, each.digest)) found = each;
  return found;
}

/** Returns a string that differs after every change of the file; empty while there is no file. */
async function versionOf(path: string): Promise<string> {
  try {
    const { ino, size, mtimeNs, ctimeNs } = await stat(path, { bigint: true });
    return [ino, size, mtimeNs, ctimeNs].join(' ');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return code === 'ENOENT' ? '' : `cannot be looked at: ${String(code)}`;
  }
}

/**
 * Sessions of the console: tokens that sign a browser in, once, and the keys that it gets for them. Both are in memory
 * only, as digests, and end with the daemon.
 */
import { randomBytes } from 'node:crypto';
import { digestOfKey, newKey } from '../../home/key-file.ts';
import type { SessionKey } from '../../protocol/console.ts';
import { SvcError } from '../../protocol/errors.ts';

/** Time for a browser to start. */
export const TOKEN_MS = 60_000;
/** A working day, and the way there. */
export const SESSION_MS = 12 * 3_600_000;
const TOKEN_BYTES = 32;
/** A further one replaces the oldest. */
const MOST_TOKENS = 16;
const MOST_SESSIONS = 64;

export class Sessions {
  readonly #now: () => number;
  readonly #tokens = new Secrets(MOST_TOKENS);
  readonly #keys = new Secrets(MOST_SESSIONS);

  /** `now`: milliseconds since 1970. */
  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  /** True if no session is open. */
  get isEmpty(): boolean {
    return this.#keys.isEmpty(this.#now());
  }

  /** Makes a token that `signIn` takes once. */
  newToken(): { readonly token: string; readonly expires_at: string } {
    const token = randomBytes(TOKEN_BYTES).toString('base64url');
    const expiresAt = this.#now() + TOKEN_MS;
    this.#tokens.add(token, expiresAt);
    return { token, expires_at: new Date(expiresAt).toISOString() };
  }

  /** Throws UNAUTHORIZED. */
  signIn(token: string): SessionKey {
    if (!this.#tokens.take(token, this.#now())) {
      throw new SvcError('UNAUTHORIZED', 'the link has been used, has expired, or is of another daemon', {
        hint: 'run `svc open` again: each link works once, within a minute',
        param: 'token',
      });
    }
    const key = newKey();
    const expiresAt = this.#now() + SESSION_MS;
    this.#keys.add(key, expiresAt);
    return { key, expires_at: new Date(expiresAt).toISOString() };
  }

  /** True for the key of a session that has not expired. */
  has(key: string): boolean {
    return this.#keys.has(key, this.#now());
  }
}

/**
 * Secrets that expire. Only their digests are kept and looked up: the time of a look-up says nothing about a secret of
 * which the caller does not know the digest.
 */
class Secrets {
  readonly #most: number;
  /** Time of expiry by digest, the oldest first. */
  readonly #expiries = new Map<string, number>();

  constructor(most: number) {
    this.#most = most;
  }

  add(secret: string, expiresAt: number): void {
    this.#expiries.set(digestOf(secret), expiresAt);
    const [oldest] = this.#expiries.keys();
    if (this.#expiries.size > this.#most && oldest !== undefined) this.#expiries.delete(oldest);
  }

  has(secret: string, now: number): boolean {
    // Every request asks, most of them without a session.
    if (this.isEmpty(now)) return false;
    return this.#expiries.has(digestOf(secret));
  }

  /** Returns if it was there, and removes it. */
  take(secret: string, now: number): boolean {
    return this.has(secret, now) && this.#expiries.delete(digestOf(secret));
  }

  isEmpty(now: number): boolean {
    for (const [digest, expiresAt] of this.#expiries) if (now >= expiresAt) this.#expiries.delete(digest);
    return this.#expiries.size === 0;
  }
}

function digestOf(secret: string): string {
  return digestOfKey(secret).toString('hex');
}

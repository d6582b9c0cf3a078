/**
 * `credentials.json`: the stored keys of providers. Unlike in keys.json, the keys themselves are stored, since they
 * must be sent. Only the owner may read the file; a file that other users can read is rejected until its mode is
 * corrected.
 */
import { statSync } from 'node:fs';
import * as v from 'valibot';
import { SvcError } from '../protocol/errors.ts';
import { LIMITS } from '../protocol/limits.ts';
import { PROVIDER_NAME } from '../protocol/routing.ts';
import { changePrivate, readPrivate, type PrivateFile } from './private-file.ts';

const FileSchema = v.object({
  version: v.literal(1),
  credentials: v.record(
    v.pipe(v.string(), v.regex(PROVIDER_NAME)),
    v.object({ api_key: v.pipe(v.string(), v.regex(/^[\x21-\x7e]+$/)), saved_at: v.string() }),
  ),
});
type Content = v.InferOutput<typeof FileSchema>;
type Entries = Content['credentials'];

const FILE: PrivateFile<Content> = {
  schema: FileSchema,
  what: "the file of the providers' keys",
  content: 'credentials',
  hint: 'repair it, or move it away and set the keys again: svc provider set NAME --api-key-stdin',
  forbidden: [0o077, 'can be read by other users'],
  isSecret: true,
};

/** Validates a typed or piped key. Throws INPUT_INVALID, without repeating the key. */
export function checkedKey(typed: string): string {
  const key = typed.trim();
  const problem =
    key === ''
      ? 'it is empty'
      : key.length > LIMITS.providerKeyLength
        ? `it has more than ${String(LIMITS.providerKeyLength)} characters`
        : /[^\x21-\x7e]/.test(key)
          ? 'it has characters that cannot be in a header, such as spaces or line ends'
          : undefined;
  if (problem === undefined) return key;
  throw new SvcError('INPUT_INVALID', `this is not a valid key: ${problem}`, {
    hint: 'give the key alone, on one line',
  });
}

/** A cached view of the file, read again only when it has changed. */
export class Credentials {
  readonly #path: string;
  #entries: Entries = {};
  /** Version of the file that was read; empty: there was none. */
  #version = '';

  constructor(path: string) {
    this.#path = path;
  }

  /** Returns the stored key; null: there is none for this provider. Throws CONFIG_INVALID. */
  keyOf(provider: string): string | null {
    const version = versionOf(this.#path);
    if (version !== this.#version) {
      this.#entries = readCredentials(this.#path);
      this.#version = version;
    }
    return Object.hasOwn(this.#entries, provider) ? (this.#entries[provider]?.api_key ?? null) : null;
  }
}

/** REQUIRES: `key` is a `checkedKey`. Throws CONFIG_INVALID, CANNOT_WRITE, BUSY. */
export async function saveCredential(path: string, provider: string, key: string): Promise<void> {
  await change(path, (entries) => ({ ...entries, [provider]: { api_key: key, saved_at: new Date().toISOString() } }));
}

/** Resolves with true if there was one. Throws CONFIG_INVALID, CANNOT_WRITE, BUSY. */
export async function removeCredential(path: string, provider: string): Promise<boolean> {
  if (!Object.hasOwn(readCredentials(path), provider)) return false;
  await change(path, (entries) => Object.fromEntries(Object.entries(entries).filter(([name]) => name !== provider)));
  return true;
}

/** Reads the file; a missing file has no credentials. */
function readCredentials(path: string): Entries {
  return readPrivate(path, FILE)?.credentials ?? {};
}

async function change(path: string, edit: (entries: Entries) => Entries): Promise<void> {
  await changePrivate(path, FILE, (file): Content => ({ version: 1, credentials: edit(file?.credentials ?? {}) }));
}

/** Returns a string that differs after every change of the file or its mode; empty while there is no file. */
function versionOf(path: string): string {
  try {
    const { ino, size, mtimeNs, ctimeNs } = statSync(path, { bigint: true });
    return [ino, size, mtimeNs, ctimeNs].join(' ');
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT' ? '' : 'cannot be looked at';
  }
}

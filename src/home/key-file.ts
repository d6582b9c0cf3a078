/**
 * `keys.json`: the API keys for clients over TCP.
 *
 * A key is 32 random bytes; only its SHA-256 digest is stored. Random keys of this size cannot be guessed, so a slow
 * password hash would only slow down the daemon.
 *
 * Reads need no lock: a write replaces the file atomically. A change (read, modify, write) holds a lock. A file that
 * cannot be parsed, or that other users may write, is an error, and all clients are refused.
 */
import { createHash, randomBytes } from 'node:crypto';
import { closeSync, fstatSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import * as v from 'valibot';
import writeFileAtomic from 'write-file-atomic';
import { openToReadSync } from '../files/open-file.ts';
import { whyOf } from '../files/why.ts';
import { SvcError } from '../protocol/errors.ts';
import { given } from '../protocol/given.ts';
import { KEY_SCOPES, type KeyScope } from '../protocol/keys.ts';
import { withFileLock } from '../files/file-lock.ts';

const NAME = /^[a-z0-9][a-z0-9._-]{0,63}$/i;
const KEY_BYTES = 32;
/** Makes a leaked key recognisable to people and to secret scanners. */
const KEY_PREFIX = 'svc_';
export const MAX_KEYS = 1000;
const FILE_BYTES = 1024 * 1024;

const KeyFileSchema = v.object({
  version: v.literal(1),
  keys: v.pipe(
    v.array(
      v.object({
        name: v.pipe(v.string(), v.regex(NAME)),
        scope: v.picklist(KEY_SCOPES),
        sha256: v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/)),
        created_at: v.string(),
      }),
    ),
    v.maxLength(MAX_KEYS),
  ),
});
export type KeyEntry = v.InferOutput<typeof KeyFileSchema>['keys'][number];

export function digestOfKey(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}

/** Reads the keys; a missing file has none. Throws CONFIG_INVALID. */
export function readKeyFile(path: string): readonly KeyEntry[] {
  return findKeyFile(path) ?? [];
}

/** Reads the keys. null: there is no file. Throws CONFIG_INVALID. */
export function findKeyFile(path: string): readonly KeyEntry[] | null {
  let text: string;
  try {
    text = readOwnFile(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error instanceof SvcError ? error : unusable(path, `cannot be read: ${whyOf(error)}`, error);
  }
  try {
    return v.parse(KeyFileSchema, JSON.parse(text)).keys;
  } catch (error) {
    throw unusable(path, 'is damaged, or of a newer svc', error);
  }
}

/** Adds a key and returns it; it cannot be read again. Throws INVALID_REQUEST, CONFIG_INVALID, CANNOT_WRITE, BUSY. */
export async function addKey(path: string, name: string, scope: KeyScope): Promise<{ entry: KeyEntry; key: string }> {
  if (!NAME.test(name)) {
    throw new SvcError('INVALID_REQUEST', `${JSON.stringify(name.slice(0, 80))} cannot be the name of a key`, {
      hint: 'up to 64 letters, digits, dots, dashes and underscores; a letter or digit first',
    });
  }
  const key = KEY_PREFIX + randomBytes(KEY_BYTES).toString('base64url');
  const entry: KeyEntry = {
    name,
    scope,
    sha256: digestOfKey(key).toString('hex'),
    created_at: new Date().toISOString(),
  };
  await change(path, (keys) => {
    if (keys.some((other) => other.name === name)) {
      throw new SvcError('INVALID_REQUEST', `a key with this name exists: ${name}`, {
        hint: `choose another name, or remove that one: svc key rm ${name}`,
      });
    }
    if (keys.length >= MAX_KEYS) {
      throw new SvcError('INVALID_REQUEST', `there are ${String(MAX_KEYS)} keys already`, {
        hint: 'remove one that is not used: svc key rm NAME',
      });
    }
    return [...keys, entry];
  });
  return { entry, key };
}

/** Resolves with the number of keys left. Throws NOT_FOUND, CONFIG_INVALID, CANNOT_WRITE, BUSY. */
export async function removeKey(path: string, name: string): Promise<number> {
  return await change(path, (keys) => {
    const rest = keys.filter((entry) => entry.name !== name);
    if (rest.length < keys.length) return rest;
    throw new SvcError('NOT_FOUND', `there is no key ${JSON.stringify(name.slice(0, 80))}`, {
      hint: 'see which there are: svc key list',
    });
  });
}

async function change(path: string, edit: (keys: readonly KeyEntry[]) => readonly KeyEntry[]): Promise<number> {
  try {
    return await withFileLock(join(dirname(path), 'keys.lock'), { what: 'the keys' }, async () => {
      const keys = edit(readKeyFile(path));
      await writeFileAtomic(path, `${JSON.stringify({ version: 1, keys }, null, 2)}\n`, { mode: 0o600 });
      return keys.length;
    });
  } catch (error) {
    if (error instanceof SvcError) throw error;
    throw new SvcError('CANNOT_WRITE', `cannot write ${path}: ${whyOf(error)}`, {
      hint: 'make its directory writable, or set SVC_HOME to another',
      cause: error,
    });
  }
}

/** Reads a file that only its owner may write. Throws CONFIG_INVALID, or the error of the file system. */
function readOwnFile(path: string): string {
  const descriptor = openToReadSync(path);
  try {
    const { mode, uid, size } = fstatSync(descriptor);
    if (size > FILE_BYTES) throw unusable(path, `has more than ${String(FILE_BYTES)} bytes`);
    if (process.platform !== 'win32') {
      if ((mode & 0o022) !== 0) throw unusable(path, 'can be written by other users', undefined, `chmod 600 ${path}`);
      if (uid !== 0 && uid !== process.getuid?.()) throw unusable(path, `belongs to user ${String(uid)}`);
    }
    return readFileSync(descriptor, 'utf8');
  } finally {
    closeSync(descriptor);
  }
}

function unusable(path: string, what: string, cause?: unknown, hint?: string): SvcError {
  return new SvcError('CONFIG_INVALID', `the file of API keys ${path} ${what}`, {
    hint: hint ?? 'mend it, or move it away and make new keys: svc key add NAME',
    ...given({ cause }),
  });
}

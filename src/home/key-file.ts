/**
 * `keys.json`: the API keys for clients over TCP.
 *
 * A key is 32 random bytes; only its SHA-256 digest is stored. Random keys of this size cannot be guessed, so a slow
 * password hash would only slow down the daemon.
 *
 * A file that cannot be parsed, or that other users may write, is an error, and all clients are refused.
 */
import { createHash, randomBytes } from 'node:crypto';
import * as v from 'valibot';
import { SvcError } from '../protocol/errors.ts';
import { CONSOLE_KEY, KEY_LIMIT_FIELDS, KEY_SCOPES, type KeyLimits, type KeyScope } from '../protocol/keys.ts';
import { changePrivate, readPrivate, type PrivateFile } from './private-file.ts';

const NAME = /^[a-z0-9][a-z0-9._-]{0,63}$/i;
const KEY_BYTES = 32;
/** Makes a leaked key recognisable to people and to secret scanners. */
const KEY_PREFIX = 'svc_';
export const MAX_KEYS = 1000;

const EntrySchema = v.object({
  name: v.pipe(v.string(), v.regex(NAME)),
  scope: v.picklist(KEY_SCOPES),
  sha256: v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/)),
  created_at: v.string(),
  ...KEY_LIMIT_FIELDS,
});

const KeyFileSchema = v.object({
  version: v.literal(1),
  keys: v.pipe(v.array(EntrySchema), v.maxLength(MAX_KEYS)),
});
type Content = v.InferOutput<typeof KeyFileSchema>;
export type KeyEntry = Content['keys'][number];

const FILE: PrivateFile<Content> = {
  schema: KeyFileSchema,
  what: 'the file of API keys',
  content: 'keys',
  hint: 'repair it, or move it away and make new keys: svc key add NAME',
  forbidden: [0o022, 'can be written by other users'],
  isSecret: false,
};

export function digestOfKey(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}

/** A random key, which cannot be guessed. */
export function newKey(): string {
  return KEY_PREFIX + randomBytes(KEY_BYTES).toString('base64url');
}

/** Reads the keys; a missing file has none. Throws CONFIG_INVALID. */
export function readKeyFile(path: string): readonly KeyEntry[] {
  return findKeyFile(path) ?? [];
}

/** Reads the keys. null: there is no file. Throws CONFIG_INVALID. */
export function findKeyFile(path: string): readonly KeyEntry[] | null {
  return readPrivate(path, FILE)?.keys ?? null;
}

/** Adds a key and returns it; it cannot be read again. Throws INVALID_REQUEST, CONFIG_INVALID, CANNOT_WRITE, BUSY. */
export async function addKey(
  path: string,
  name: string,
  scope: KeyScope,
  limits: KeyLimits & Pick<KeyEntry, 'expires_at'> = {},
): Promise<{ entry: KeyEntry; key: string }> {
  if (!NAME.test(name)) {
    throw new SvcError('INVALID_REQUEST', `${JSON.stringify(name.slice(0, 80))} cannot be the name of a key`, {
      hint: 'up to 64 letters, digits, dots, dashes and underscores; a letter or digit first',
    });
  }
  if (name.toLowerCase() === CONSOLE_KEY) {
    throw new SvcError('INVALID_REQUEST', `${name} is the name of the sessions that \`svc open\` starts`, {
      hint: 'choose another name',
    });
  }
  const key = newKey();
  const entry: KeyEntry = {
    name,
    scope,
    sha256: digestOfKey(key).toString('hex'),
    created_at: new Date().toISOString(),
    ...(limits as Partial<KeyEntry>),
  };
  if (!v.is(EntrySchema, entry)) throw new SvcError('INVALID_REQUEST', 'the limits of the key are not valid');
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

async function change(path: string, edit: (keys: readonly KeyEntry[]) => KeyEntry[]): Promise<number> {
  const after = await changePrivate(path, FILE, (file): Content => ({ version: 1, keys: edit(file?.keys ?? []) }));
  return after.keys.length;
}

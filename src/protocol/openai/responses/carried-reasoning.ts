/**
 * The reasoning of an answer as `encrypted_content`, which clients that store nothing send back: some drop every other
 * text of the item. It is base64, not encrypted: the client may read it anyway.
 */
const PREFIX = 'svc:';

export function toEncrypted(reasoning: string): string {
  return PREFIX + Buffer.from(reasoning).toString('base64');
}

/** The reasoning; empty if the content is of another server. */
export function fromEncrypted(content: string): string {
  return content.startsWith(PREFIX) ? Buffer.from(content.slice(PREFIX.length), 'base64').toString() : '';
}

/**
 * The reasoning of an answer in a field that clients send back unread: `encrypted_content` in OpenAI's Responses API,
 * `signature` in Anthropic's. Clients that store or show no reasoning drop or empty every other text of it. It is
 * base64, not encrypted: the client may read it anyway.
 */
const PREFIX = 'svc:';

export function toCarried(reasoning: string): string {
  return PREFIX + Buffer.from(reasoning).toString('base64');
}

/** The reasoning; empty if the field is of another server. */
export function fromCarried(field: string): string {
  return field.startsWith(PREFIX) ? Buffer.from(field.slice(PREFIX.length), 'base64').toString() : '';
}

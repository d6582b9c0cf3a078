/**
 * Which endpoint of a cluster a request goes to. Pure.
 *
 * Requests that begin alike go to the same endpoint, which has computed that beginning already:
 * rendezvous hashing (Thaler and Ravishankar, "Using name-based mappings to increase hit rates", 1998)
 * gives every prefix an order of the endpoints that changes only where one comes or goes. Loads are
 * bounded (Mirrokni, Thorup and Zadimoghaddam, "Consistent hashing with bounded loads", 2018): an
 * endpoint that has more than its share passes what is new on to the next in that order.
 */
import { createHash } from 'node:crypto';
import type { GenerateRequest } from '../../../protocol/generate.ts';

export interface Choice {
  readonly url: string;
  /** Requests under way there, ours and, where it tells, those of others. */
  readonly load: number;
}

/** How much more than the mean an endpoint may have. */
const SHARE = 1.25;
/** A few at once are no load: below that the beginning alone decides. */
const FREE = 4;
const PREFIX_CHARACTERS = 4096;

/** What requests have in common whose prompts begin alike: the model, the tools, and all up to the first turn of the user. */
export function prefixKey(request: GenerateRequest): string {
  const first = request.messages.findIndex(({ role }) => role === 'user');
  const opening = request.messages.slice(0, first + 1).map(({ role, content }) => [role, content]);
  const text = JSON.stringify([request.model ?? null, request.tools ?? null, opening]);
  return createHash('sha256').update(text.slice(0, PREFIX_CHARACTERS)).digest('base64');
}

/** All of `choices`: first those with room, in the order of `key`, then the others, the least loaded first. */
export function preferred<Item extends Choice>(choices: readonly Item[], key: string): Item[] {
  const total = choices.reduce((sum, { load }) => sum + load, 1);
  const bound = Math.max(FREE, Math.ceil((SHARE * total) / choices.length));
  const ordered = choices
    .map((choice) => ({ choice, weight: weightOf(choice.url, key) }))
    .sort((a, b) => b.weight - a.weight)
    .map(({ choice }) => choice);
  const full = ordered.filter(({ load }) => load >= bound).sort((a, b) => a.load - b.load);
  return [...ordered.filter(({ load }) => load < bound), ...full];
}

function weightOf(url: string, key: string): number {
  return createHash('sha256').update(url).update('\n').update(key).digest().readUIntBE(0, 6);
}

/**
 * Chooses the endpoint of a cluster for a request. Pure.
 *
 * Requests with the same prefix go to the same endpoint, whose prefix cache has it: rendezvous hashing (Thaler and
 * Ravishankar, "Using name-based mappings to increase hit rates", 1998) gives every prefix an order of the endpoints
 * that stays stable when endpoints come or go. Loads are bounded (Mirrokni, Thorup and Zadimoghaddam, "Consistent
 * hashing with bounded loads", 2018): an endpoint above its share passes new requests to the next in that order.
 */
import { createHash } from 'node:crypto';
import type { GenerateRequest } from '../../../protocol/generate.ts';

export interface Choice {
  readonly url: string;
  /** Requests in flight there: ours and, if it reports them, those of other clients. */
  readonly load: number;
}

/** Maximum load of an endpoint relative to the mean. */
const SHARE = 1.25;
/** Below this load only the prefix decides. */
const FREE = 4;
const PREFIX_CHARACTERS = 4096;

/** Hash of a request's prefix: the model, the tools, and all messages up to the first user turn. */
export function prefixKey(request: GenerateRequest): string {
  const first = request.messages.findIndex(({ role }) => role === 'user');
  const opening = request.messages.slice(0, first + 1).map(({ role, content }) => [role, content]);
  const text = JSON.stringify([request.model ?? null, request.tools ?? null, opening]);
  return createHash('sha256').update(text.slice(0, PREFIX_CHARACTERS)).digest('base64');
}

/** All of `choices`: first those below the load bound, in the hash order of `key`, then the others by load. */
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

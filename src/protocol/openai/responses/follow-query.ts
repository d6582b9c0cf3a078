/** `GET /v1/responses/ID?stream=true&starting_after=N`: the events of a background response behind one of them. */
import * as v from 'valibot';
import { invalid, parse } from '../../validate.ts';

/** Fields of the query, as text. */
const FollowQuerySchema = v.object({
  stream: v.exactOptional(v.picklist(['true', 'false', '1', '0']), 'false'),
  /** `sequence_number` of the last event that the client has. */
  starting_after: v.exactOptional(v.pipe(v.string(), v.regex(/^\d{1,10}$/), v.transform(Number))),
});

/** `after`: -1 for all events. Throws INVALID_REQUEST with `param`. */
export function parseFollowQuery(query: URLSearchParams): { readonly isStream: boolean; readonly after: number } {
  const { stream, starting_after: after } = parse(FollowQuerySchema, Object.fromEntries(query));
  const isStream = stream === 'true' || stream === '1';
  if (after !== undefined && !isStream) throw invalid('starting_after', 'needs stream=true');
  return { isStream, after: after ?? -1 };
}

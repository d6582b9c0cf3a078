/** Query of `GET /v1/responses/ID`: whether, and from where on, its events are wanted. */
import * as v from 'valibot';
import { parse } from '../../validate.ts';

const StreamQuerySchema = v.object({
  stream: v.exactOptional(v.picklist(['true', 'false']), 'false'),
  /** `sequence_number` of the last event that the client has. */
  starting_after: v.exactOptional(
    v.pipe(v.string(), v.regex(/^\d{1,9}$/, 'must be a sequence number'), v.transform(Number)),
  ),
});

export interface StreamQuery {
  readonly stream: boolean;
  /** -1: all events are wanted. */
  readonly starting_after: number;
}

/** Throws INVALID_REQUEST with `param`. */
export function parseStreamQuery(query: URLSearchParams): StreamQuery {
  const { stream, starting_after = -1 } = parse(StreamQuerySchema, Object.fromEntries(query));
  return { stream: stream === 'true', starting_after };
}

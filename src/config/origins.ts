/** The setting `http.origins`. */
import * as v from 'valibot';
import { KEY_SCOPES } from '../protocol/keys.ts';
import { isOrigin, originOf, type OriginEntry } from '../protocol/origins.ts';
import { section } from './schema.ts';

const MOST_ORIGINS = 256;

const EXACT =
  'must be an exact origin as browsers send it, such as https://app.example.com: lower case, no path, no wildcard';

const origin = v.pipe(v.string(EXACT), v.check(isOrigin, EXACT));

const withScope = section({
  origin,
  /** The most that pages of this origin may do. Absent: `inference`. */
  scope: v.exactOptional(v.picklist(KEY_SCOPES, `must be one of ${KEY_SCOPES.join(', ')}`)),
});

const entry = v.lazy((value): v.GenericSchema<OriginEntry, OriginEntry> =>
  typeof value === 'object' ? (withScope as v.GenericSchema<OriginEntry, OriginEntry>) : origin,
);

/** Origins of the pages that may use the HTTP API; each once. */
export const OriginsSchema = v.pipe(
  v.array(entry, 'must be a list of origins'),
  v.maxLength(MOST_ORIGINS, `must have at most ${String(MOST_ORIGINS)} origins`),
  v.check((entries) => new Set(entries.map(originOf)).size === entries.length, 'names an origin twice'),
);

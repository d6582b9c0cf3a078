/** The section `policies`: names for lists of candidates (docs/routing.md). */
import * as v from 'valibot';
import { FALLBACK_CONDITIONS, PROVIDER_NAME } from '../protocol/routing.ts';
import { named, section, text } from './schema.ts';

const MOST_CANDIDATES = 32;

export const PoliciesSchema = named(
  v.pipe(v.string(), v.regex(PROVIDER_NAME, 'cannot be the name of a policy: small letters, digits and dashes')),
  section({
    /** `PROVIDER` or `PROVIDER/MODEL`, in the order in which they are tried. */
    candidates: v.pipe(
      v.array(text, 'must be a list of PROVIDER or PROVIDER/MODEL'),
      v.minLength(1, 'must not be empty'),
      v.maxLength(MOST_CANDIDATES, `must have at most ${String(MOST_CANDIDATES)} candidates`),
    ),
    /** Failures after which the next candidate is tried. */
    fallback_on: v.exactOptional(
      v.array(
        v.picklist(FALLBACK_CONDITIONS, `must be a list of ${FALLBACK_CONDITIONS.join(', ')}`),
        `must be a list of ${FALLBACK_CONDITIONS.join(', ')}`,
      ),
      [...FALLBACK_CONDITIONS],
    ),
  }),
);

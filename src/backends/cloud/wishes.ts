/** An answer never silently ignores a wish: what an API or a server has no words for is refused, by name. */
import type { GenerateRequest, Sampling } from '../../protocol/generate.ts';
import { invalid } from '../../protocol/validate.ts';

const NOT_HERE = 'is not supported by this provider';

/** At these values a setting does nothing, so that a server without it answers the same. */
const IDLE: Readonly<Partial<Record<keyof Sampling, number>>> = {
  top_k: 0,
  top_p: 1,
  min_p: 0,
  repeat_penalty: 1,
  frequency_penalty: 0,
  presence_penalty: 0,
};

/**
 * Throws INVALID_REQUEST for a wish that stands in `unsupported` (see Quirks): by its name in the request, by
 * the name of a field that it became in the body, or as `images`.
 */
export function refuse(request: GenerateRequest, body: object, unsupported: readonly string[]): void {
  const images = request.messages.flatMap(({ content }) =>
    typeof content === 'string' ? [] : content.filter(({ type }) => type !== 'text'),
  );
  const wishes: Readonly<Record<string, unknown>> = { ...body, ...request, ...atWork(request.sampling), images };
  for (const name of unsupported) {
    const wish = wishes[name];
    if (wish === undefined || (Array.isArray(wish) && wish.length === 0)) continue;
    throw invalid(name, NOT_HERE);
  }
}

/** The settings of those that the API knows. Throws INVALID_REQUEST for another one that would do something. */
export function knownSampling<Name extends keyof Sampling>(
  sampling: Sampling,
  known: readonly Name[],
): Partial<Pick<Sampling, Name>> {
  const isKnown = (name: string): boolean => (known as readonly string[]).includes(name);
  for (const name of Object.keys(atWork(sampling))) {
    if (!isKnown(name)) throw invalid(name, NOT_HERE);
  }
  return Object.fromEntries(Object.entries(sampling).filter(([name]) => isKnown(name))) as Partial<
    Pick<Sampling, Name>
  >;
}

function atWork(sampling: Sampling): Partial<Sampling> {
  return Object.fromEntries(
    Object.entries(sampling).filter(
      ([name, value]) => value !== IDLE[name as keyof Sampling] && !(Array.isArray(value) && value.length === 0),
    ),
  );
}

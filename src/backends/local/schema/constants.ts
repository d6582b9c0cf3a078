/** The values that `enum` and `const` list: those that the keywords beside them allow. */
import { LIMITS } from '../../../protocol/limits.ts';
import { invalid } from '../../../protocol/validate.ts';
import { appliesTo, isAnnotation, typeOf, typesOf, type Json, type JsonObject } from './keywords.ts';
import type { LeaveOut } from './leave-out.ts';
import { canonical } from './merge.ts';
import type { Work } from './work.ts';

type Check = (size: number, limit: number) => boolean;

const atLeast: Check = (size, limit) => size >= limit;
const atMost: Check = (size, limit) => size <= limit;
const CHECKS: Readonly<Record<string, Check>> = {
  minLength: atLeast,
  minItems: atLeast,
  minProperties: atLeast,
  minimum: atLeast,
  exclusiveMinimum: (size, limit) => size > limit,
  maxLength: atMost,
  maxItems: atMost,
  maxProperties: atMost,
  maximum: atMost,
  exclusiveMaximum: (size, limit) => size < limit,
  multipleOf: (size, limit) => Number.isInteger(size / limit),
};
/** `format` is an annotation here, as beside a pattern. */
const OTHERS = new Set(['enum', 'const', 'type', 'format']);

/** At least one value. Throws INVALID_REQUEST. `path`: path of the schema, which has `enum` or `const`. */
export function constantsOf(schema: JsonObject, path: string, work: Work, leaveOut: LeaveOut): readonly Json[] {
  const listed = schema['enum'] ?? [schema['const'] as Json];
  if (!Array.isArray(listed)) throw invalid(`${path}.enum`, 'must be a list of values');
  work.spend(listed.length);
  work.read([listed, schema['const']]);
  const types = schema['type'] === undefined ? null : (typesOf(schema) ?? []);
  const only = schema['const'] === undefined ? null : canonical(schema['const']);
  const fits = (value: Json): boolean => {
    const type = typeOf(value);
    const isOfType = types === null || types.includes(type) || (type === 'integer' && types.includes('number'));
    return isOfType && (only === null || canonical(value) === only);
  };
  let values: readonly Json[] = (listed as readonly Json[]).filter(fits);
  for (const [keyword, limit] of Object.entries(schema))
    if (!isAnnotation(keyword) && !OTHERS.has(keyword)) values = within(values, keyword, limit, path, leaveOut);
  if (values.length === 0) throw invalid(path, 'allows no value');
  if (values.length > LIMITS.schemaEnumValues)
    throw invalid(`${path}.enum`, `must have at most ${String(LIMITS.schemaEnumValues)} values`);
  return values;
}

/** The values that the keyword allows. */
function within(
  values: readonly Json[],
  keyword: string,
  limit: Json,
  path: string,
  leaveOut: LeaveOut,
): readonly Json[] {
  const isConcerned = (value: Json): boolean => appliesTo(keyword, typeOf(value));
  const place = `${path}.${keyword.slice(0, 64)}`;
  const check = CHECKS[keyword];
  if (check === undefined) {
    if (values.some(isConcerned)) leaveOut(place, 'cannot be combined with enum or const');
    return values;
  }
  if (typeof limit !== 'number') throw invalid(place, 'must be number');
  return values.filter((value) => !isConcerned(value) || check(sizeOf(value), limit));
}

/** A number, or how many characters, items or properties the value has. */
function sizeOf(value: Json): number {
  if (typeof value === 'number') return value;
  if (typeof value === 'string') return [...value].length;
  return Array.isArray(value) ? value.length : Object.keys(value ?? {}).length;
}

/** Merges two schemas into their intersection, and tests whether two schemas are disjoint. */
import { LIMITS } from '../../../protocol/limits.ts';
import { isAnnotation, isObject, typeOf, typesOf, type Json, type JsonObject } from './keywords.ts';

/**
 * The intersection of both. `leaveOut` is called if these rules cannot express it as one schema. If it returns,
 * keywords that depend on the properties or items beside them are left out, and of two others the one of `a` remains.
 * REQUIRES: `$ref`s are resolved.
 */
export function merge(a: JsonObject, b: JsonObject, leaveOut: () => void): JsonObject {
  const relative = [
    ...(hasPropertiesOf(a, b) && hasPropertiesOf(b, a) ? [] : ['additionalProperties']),
    ...(haveSamePrefix(a, b) ? [] : ['prefixItems', 'items', 'additionalItems']),
  ];
  if (relative.length > 0) leaveOut();
  const absolute = (schema: JsonObject): (readonly [keyword: string, value: Json])[] =>
    Object.entries(schema).filter(([keyword]) => !relative.includes(keyword));
  const merged = new Map(absolute(a));
  for (const [keyword, value] of absolute(b)) {
    const other = merged.get(keyword);
    if (other === undefined || isAnnotation(keyword) || isSame(other, value)) merged.set(keyword, value);
    else {
      const both = mergeKeyword(keyword, other, value);
      if (both === null) leaveOut();
      else merged.set(keyword, both);
    }
  }
  return objectOf(merged);
}

/**
 * As Object.fromEntries, without a prototype: V8 keeps such objects as hash tables from the start. After thousands of
 * different names it takes quadratic time for others.
 */
function objectOf(entries: Iterable<readonly [name: string, value: Json]>): JsonObject {
  const made = Object.create(null) as Record<string, Json>;
  for (const [name, value] of entries) made[name] = value;
  return made;
}

/** A schema's `additionalProperties` is relative to its own `properties`, so `other` may name no further ones. */
function hasPropertiesOf(schema: JsonObject, other: JsonObject): boolean {
  if (schema['additionalProperties'] === undefined) return true;
  const own = (schema['properties'] ?? {}) as JsonObject;
  return Object.keys((other['properties'] ?? {}) as JsonObject).every((name) => Object.hasOwn(own, name));
}

/** A schema's `items` and `additionalItems` are relative to its own first items, so `other` must have the same. */
function haveSamePrefix(schema: JsonObject, other: JsonObject): boolean {
  const prefix = ({ prefixItems = null, items = null }: JsonObject): Json => [
    prefixItems,
    Array.isArray(items) ? (items as Json) : null,
  ];
  const isRelative = ({ items, additionalItems }: JsonObject): boolean => (items ?? additionalItems) !== undefined;
  return (!isRelative(schema) && !isRelative(other)) || isSame(prefix(schema), prefix(other));
}

function mergeKeyword(keyword: string, a: Json, b: Json): Json | null {
  switch (keyword) {
    case 'type': {
      const shared = (typesOf({ type: a }) ?? []).filter((name) => (typesOf({ type: b }) ?? []).includes(name));
      return shared.length === 0 ? null : shared;
    }
    case 'required':
      return Array.isArray(a) && Array.isArray(b) ? [...new Set([...(a as Json[]), ...(b as Json[])])] : null;
    case 'properties': {
      if (!isObject(a) || !isObject(b)) return null;
      const properties = new Map(Object.entries(a));
      for (const [name, schema] of Object.entries(b)) {
        const other = properties.get(name);
        properties.set(name, other === undefined || isSame(other, schema) ? schema : { allOf: [other, schema] });
      }
      return objectOf(properties);
    }
    case 'minimum':
    case 'minLength':
    case 'minItems':
    case 'minProperties':
      return typeof a === 'number' && typeof b === 'number' ? Math.max(a, b) : null;
    case 'maximum':
    case 'maxLength':
    case 'maxItems':
    case 'maxProperties':
      return typeof a === 'number' && typeof b === 'number' ? Math.min(a, b) : null;
    default:
      return null;
  }
}

/**
 * True if no value matches both: different types or constants, also in a property that both require, down to `depth`
 * levels: references may recurse without end.
 */
export function areDisjoint(
  a: JsonObject,
  b: JsonObject,
  resolve: (schema: Json) => JsonObject | null,
  depth: number = LIMITS.schemaDepth,
): boolean {
  if (depth === 0) return false;
  const [some, others] = [valuesOf(a), valuesOf(b)];
  if (some !== null && others !== null) {
    const taken = new Set(some.map(canonical));
    return !others.some((value) => taken.has(canonical(value)));
  }
  const typesOfAll = (schema: JsonObject, values: readonly Json[] | null): readonly string[] =>
    // A schema without `type` allows every other type too.
    values?.map(typeOf) ?? (schema['type'] === undefined ? [] : (typesOf(schema) ?? []));
  const [types, otherTypes] = [typesOfAll(a, some), typesOfAll(b, others)];
  if (types.length === 0 || otherTypes.length === 0) return false;
  const meets = (x: string, y: string): boolean => x === y || (isNumeric(x) && isNumeric(y));
  if (!types.some((type) => otherTypes.some((other) => meets(type, other)))) return true;
  if (types.some((type) => type !== 'object') || otherTypes.some((type) => type !== 'object')) return false;
  const property = (schema: JsonObject, name: string): JsonObject | null => {
    const properties = (schema['properties'] ?? {}) as JsonObject;
    return resolve(Object.hasOwn(properties, name) ? (properties[name] as Json) : true);
  };
  const requiredByOther = new Set(requiredOf(b));
  return requiredOf(a).some((name) => {
    if (!requiredByOther.has(name)) return false;
    const [mine, theirs] = [property(a, name), property(b, name)];
    return mine !== null && theirs !== null && areDisjoint(mine, theirs, resolve, depth - 1);
  });
}

/** Ends at the first difference: one of them may be much larger. */
function isSame(a: Json, b: Json): boolean {
  if (Array.isArray(a) && Array.isArray(b))
    return a.length === b.length && a.every((item: Json, index) => isSame(item, b[index] as Json));
  if (!isObject(a) || !isObject(b)) return a === b;
  const names = Object.keys(a);
  const isIn = (name: string): boolean => Object.hasOwn(b, name) && isSame(a[name] as Json, b[name] as Json);
  return a === b || (names.length === Object.keys(b).length && names.every(isIn));
}

/** JSON that is equal for equal values. */
export function canonical(value: Json): string {
  return JSON.stringify(sorted(value));
}

function sorted(value: Json): Json {
  if (Array.isArray(value)) return value.map((item: Json) => sorted(item));
  if (!isObject(value)) return value;
  return objectOf(
    Object.keys(value)
      .sort()
      .map((name) => [name, sorted(value[name] as Json)]),
  );
}

function valuesOf(schema: JsonObject): readonly Json[] | null {
  if (schema['const'] !== undefined) return [schema['const']];
  return Array.isArray(schema['enum']) ? (schema['enum'] as readonly Json[]) : null;
}

function requiredOf(schema: JsonObject): readonly string[] {
  const required: readonly Json[] = Array.isArray(schema['required']) ? (schema['required'] as readonly Json[]) : [];
  return required.filter((name) => typeof name === 'string');
}

function isNumeric(type: string): boolean {
  return type === 'number' || type === 'integer';
}

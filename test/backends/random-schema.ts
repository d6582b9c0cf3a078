/** Random enforceable JSON schemas, small enough that a model with random weights finishes an instance. */
type Random = () => number;
type Schema = Record<string, unknown>;

/** Seeded random generator; the same seed gives the same numbers. */
export function random(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

export function randomSchema(next: Random, depth = 3): Schema {
  const pick = <T>(items: readonly T[]): T => items[Math.floor(next() * items.length)] as T;
  const count = (most: number): number => Math.floor(next() * (most + 1));
  const leaves: readonly (() => Schema)[] = [
    () => ({ type: 'string', maxLength: 1 + count(12), minLength: count(1) }),
    () => ({ type: 'string', pattern: pick(PATTERNS) }),
    () => ({ type: 'string', format: pick(FORMATS) }),
    () => ({ type: 'integer', ...bounds(next, 0) }),
    () => ({ type: 'number', ...bounds(next, 2) }),
    () => ({ enum: ['red', 'a "quote"', 7, null, { deep: [1, 'x'] }, -1.5].slice(0, 1 + count(5)) }),
    () => ({ const: pick(['fix', 12, true, ['a', { b: null }]]) }),
    () => ({ type: pick(['boolean', 'null']) }),
    () => ({ type: ['integer', 'null'], minimum: -3 }),
  ];
  const nested = (): Schema => randomSchema(next, depth - 1);
  const nodes: readonly (() => Schema)[] = [
    () => object(next, nested),
    () => object(next, nested),
    () => ({ type: 'array', items: nested(), minItems: count(2), maxItems: 2 + count(2) }),
    () => ({ type: 'array', items: [nested(), nested()], additionalItems: false }),
    () => ({ type: 'object', additionalProperties: nested(), maxProperties: undefined }),
    () => ({ anyOf: [nested(), nested()] }),
    () => ({ oneOf: [kind('cat', nested()), kind('dog', nested())] }),
    () => ({ allOf: [object(next, nested, 'p'), object(next, nested, 'q')] }),
  ];
  const schema = pick(depth > 0 ? [...nodes, ...leaves.slice(0, 3)] : leaves)();
  return JSON.parse(JSON.stringify(schema)) as Schema;
}

function object(next: Random, nested: () => Schema, prefix = ''): Schema {
  const names = ['name', 'na', 'größe', 'a "b"', 'list'].map((name) => prefix + name).filter(() => next() < 0.6);
  return {
    type: 'object',
    properties: Object.fromEntries(names.map((name) => [name, nested()])),
    required: names.filter(() => next() < 0.6),
    ...(prefix === '' ? (next() < 0.3 ? { additionalProperties: nested() } : { additionalProperties: false }) : {}),
  };
}

function kind(name: string, more: Schema): Schema {
  return { type: 'object', properties: { kind: { const: name }, more }, required: ['kind', 'more'] };
}

function bounds(next: Random, decimals: number): Schema {
  const round = (value: number): number => Number(value.toFixed(decimals));
  const low = round((next() - 0.5) * 10 ** Math.floor(next() * 6));
  const span = Math.max(1, round(next() * 10 ** Math.floor(next() * 5)));
  return {
    ...(next() < 0.8 ? { [next() < 0.5 ? 'minimum' : 'exclusiveMinimum']: low } : {}),
    ...(next() < 0.8 ? { [next() < 0.5 ? 'maximum' : 'exclusiveMaximum']: round(low + span + 1) } : {}),
  };
}

const PATTERNS = [
  '^[A-Z]{2,3}-\\d{4}$',
  '^(?:yes|no|"maybe")$',
  '^\\w+@\\w{1,5}\\.(com|org)$',
  '^[^\\s"\\\\]{1,6}$',
  '^a?b*c+?$',
  '^(?<year>19|20)\\d\\d/[01]\\d$',
  '^.{2,4}$',
  '^\\/[\\w\\-./]{0,8}$',
  '^[\\t\\n\\x41\\u00e9]{1,3}$',
];
const FORMATS = ['date', 'time', 'date-time', 'uuid', 'ipv4', 'ipv6', 'hostname', 'email', 'uri'];

/**
 * A schema whose keywords meet in every way: beside `$ref`, in chains of references, and in combinations. Not all of
 * them can be enforced.
 */
export function randomCombination(next: Random): Schema {
  const names = ['a', 'b', 'c', 'd'];
  // A definition refers to later ones only, unless in a property or item, so that no chain has a cycle.
  const $defs = Object.fromEntries(names.map((name, index) => [name, combined(next, names.slice(index + 1), 2)]));
  return { ...combined(next, names, 3), $defs };
}

/** `within`: definitions that it may refer to. */
function combined(next: Random, within: readonly string[], depth: number): Schema {
  const pick = <T>(items: readonly T[]): T => items[Math.floor(next() * items.length)] as T;
  const count = (most: number): number => Math.floor(next() * (most + 1));
  const part = (): Schema => combined(next, within, depth - 1);
  const inner = (): Schema | boolean => (next() < 0.15 ? next() < 0.5 : combined(next, within, depth - 1));
  const family: readonly (() => Schema)[] = pick([
    [
      () => ({ type: 'string' }),
      () => ({ maxLength: count(3) }),
      () => ({ minLength: count(2) }),
      () => ({ enum: ['a', 'bb', 'dddd'].slice(0, 1 + count(2)) }),
      () => ({ const: pick(['a', 'bb']) }),
      () => ({ pattern: pick(['^a{1,2}$', '^[ab]$', 'b']) }),
      () => ({ format: pick(['date', 'iri', 'path']), pattern: '^[a-c]{1,2}$' }),
    ],
    [
      () => ({ type: 'array', maxItems: 2 + count(1) }),
      () => ({ items: inner() }),
      () => ({ items: [inner(), inner()].slice(count(1)) }),
      () => ({ prefixItems: [inner(), inner()].slice(count(1)) }),
      () => ({ additionalItems: inner() }),
      () => ({ minItems: count(2) }),
    ],
    [
      () => ({ type: 'object' }),
      () => ({ properties: { x: inner() } }),
      () => ({ properties: { x: inner(), y: inner() } }),
      () => ({ required: pick([['x'], ['y'], ['x', 'y']]) }),
      () => ({ additionalProperties: inner() }),
      () => ({
        propertyNames: pick([{ type: 'string' }, { enum: ['x', 'z'] }, { maxLength: 2 }, { pattern: '^[xz]$' }]),
      }),
    ],
    [() => ({ type: pick(['integer', 'number']) }), () => ({ minimum: count(5) }), () => ({ maximum: 3 + count(5) })],
  ]);
  const combinations: readonly (() => Schema)[] = [
    ...(within.length === 0 ? [] : [0, 1, 2].map(() => () => ({ $ref: `#/$defs/${pick(within)}` }))),
    () => ({ [pick(['anyOf', 'allOf', 'oneOf'])]: [part(), part()] }),
    () => ({ anyOf: [{ type: 'null' }, part()] }),
    () => ({ description: 'said twice', default: 1 }),
  ];
  const isDeep = depth > 0;
  const keywords = Array.from({ length: 1 + count(2) }, () => pick(isDeep ? family : family.slice(0, 1))());
  if (isDeep && next() < 0.6) keywords.push(pick(combinations)());
  return Object.assign({}, ...(next() < 0.25 ? keywords.slice(-1) : keywords)) as Schema;
}

/** The schema in draft 7, for validators that do not know `prefixItems`. */
export function inDraft7(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(inDraft7);
  if (typeof schema !== 'object' || schema === null) return schema;
  const all = Object.fromEntries(Object.entries(schema).map(([keyword, value]) => [keyword, inDraft7(value)]));
  const { prefixItems, items, additionalItems: _ignored, ...others } = all;
  if (prefixItems === undefined) return all;
  // Both as lists are refused.
  return {
    ...others,
    items: prefixItems,
    ...(items === undefined || Array.isArray(items) ? {} : { additionalItems: items }),
  };
}

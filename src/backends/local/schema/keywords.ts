/** The JSON Schema keywords that grammars support: those for one type, for any type, and annotations. */

export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };
export type JsonObject = Readonly<Record<string, Json>>;

export const TYPES = ['object', 'array', 'string', 'number', 'integer', 'boolean', 'null'] as const;
export type TypeName = (typeof TYPES)[number];

/** Keywords that only describe and constrain nothing. */
const ANNOTATIONS = new Set([
  '$schema',
  '$id',
  '$comment',
  '$anchor',
  '$defs',
  'definitions',
  'title',
  'description',
  'default',
  'example',
  'examples',
  'deprecated',
  'readOnly',
  'writeOnly',
  'contentMediaType',
  'contentEncoding',
  // OpenAPI's, beside `oneOf`.
  'discriminator',
]);

const OF_TYPE: Readonly<Record<string, readonly TypeName[]>> = {
  properties: ['object'],
  required: ['object'],
  additionalProperties: ['object'],
  minProperties: ['object'],
  maxProperties: ['object'],
  propertyNames: ['object'],
  items: ['array'],
  prefixItems: ['array'],
  additionalItems: ['array'],
  minItems: ['array'],
  maxItems: ['array'],
  uniqueItems: ['array'],
  minLength: ['string'],
  maxLength: ['string'],
  pattern: ['string'],
  format: ['string'],
  minimum: ['number', 'integer'],
  maximum: ['number', 'integer'],
  exclusiveMinimum: ['number', 'integer'],
  exclusiveMaximum: ['number', 'integer'],
  multipleOf: ['number', 'integer'],
};

const OF_ANY = new Set(['type', 'enum', 'const', '$ref', 'anyOf', 'oneOf', 'allOf']);

export function isAnnotation(keyword: string): boolean {
  return ANNOTATIONS.has(keyword) || keyword.startsWith('x-');
}

export function isKnown(keyword: string): boolean {
  return isAnnotation(keyword) || OF_ANY.has(keyword) || Object.hasOwn(OF_TYPE, keyword);
}

/** True if the keyword may refuse values of the type. */
export function appliesTo(keyword: string, type: TypeName): boolean {
  return !Object.hasOwn(OF_TYPE, keyword) || (OF_TYPE[keyword]?.includes(type) ?? true);
}

/** Types that a schema allows; without `type`, those that its other keywords apply to, or all. null: invalid `type`. */
export function typesOf(schema: JsonObject): readonly TypeName[] | null {
  const { type } = schema;
  if (type !== undefined) {
    const names = Array.isArray(type) ? (type as readonly Json[]) : [type];
    if (names.length === 0 || names.length > TYPES.length || !names.every(isTypeName)) return null;
    // `number` includes the integers.
    return names.filter((name) => name !== 'integer' || !names.includes('number'));
  }
  const named = Object.keys(schema).flatMap((keyword) => OF_TYPE[keyword] ?? []);
  const types = TYPES.filter((name) => name !== 'integer' && (named.length === 0 || named.includes(name)));
  return types;
}

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function typeOf(value: Json): TypeName {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'number';
  return typeof value as 'object' | 'string' | 'boolean';
}

function isTypeName(name: Json): name is TypeName {
  return TYPES.includes(name as TypeName);
}

/** The schema without titles, descriptions and other keywords that constrain nothing. */
export function withoutNotes(schema: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(schema).filter(([keyword]) => !isAnnotation(keyword)));
}

/** Copy without keywords that mean nothing here. */
export function knownOf(schema: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(schema).filter(([keyword]) => isKnown(keyword)));
}

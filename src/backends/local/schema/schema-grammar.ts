/**
 * JSON Schema made into a grammar whose every text is valid against it.
 *
 * The grammar may be narrower than the schema, never wider: what it cannot enforce is an error that
 * names the place, not a word that is passed over. Narrower it is in these things: one way to write
 * JSON (`{"a": 1, "b": [true]}`, properties in the order of the schema), no \u escapes, whole numbers
 * of at most 15 digits, and no properties beside those named unless `additionalProperties` is a
 * schema. Because the way of writing is fixed, most of an answer leaves the model no choice, and what
 * leaves no choice need not be computed.
 *
 * Everything that may repeat is a rule of its own, and equal rules are one: the same place in the
 * grammar is the same state for whoever follows it.
 */
import { invalid } from '../../../protocol/validate.ts';
import { decodePercent } from '../../../protocol/foreign-text.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { ANY, characterOf, complement, intersect, literal, PLAIN, type Range } from './characters.ts';
import { FORMATS } from './formats.ts';
import {
  isAnnotation,
  isKnown,
  isObject,
  typeOf,
  typesOf,
  type Json,
  type JsonObject,
  type TypeName,
} from './keywords.ts';
import { areDisjoint, isSame, merge } from './merge.ts';
import { INTEGER, integerBetween, LARGEST, NUMBER, numberBetween, type Bounds } from './numbers.ts';
import { PatternError, patternToGbnf } from './pattern.ts';

const CHARACTER = characterOf(ANY) ?? '';
/** Keys are written without escapes, so that each can be written in one way only. */
const KEY_CHARACTER = characterOf(PLAIN) ?? '';

/** Any JSON object. */
export function jsonGrammar(): string {
  const compiler = new SchemaCompiler(true, '');
  return compiler.finish(compiler.object({}, ''));
}

/** `param`: what the schema is called in errors. Throws INVALID_REQUEST with the place in it. */
export function schemaGrammar(schema: unknown, param: string): string {
  if (JSON.stringify(schema).length > LIMITS.schemaBytes)
    throw invalid(param, `must be at most ${String(LIMITS.schemaBytes)} bytes of JSON`);
  const compiler = new SchemaCompiler(schema as Json, param);
  return compiler.finish(compiler.value(schema as Json, param));
}

class SchemaCompiler {
  readonly #root: Json;
  readonly #param: string;
  readonly #names = new Map<string, string>();
  readonly #rules: string[] = [];
  /** Of each `$ref`: a name before there is a rule, because it may be inside itself. */
  readonly #references = new Map<string, string>();
  #length = 0;
  #depth = 0;
  #work = 0;

  constructor(root: Json, param: string) {
    this.#root = root;
    this.#param = param;
  }

  finish(root: string): string {
    return [`root ::= ${root}`, ...this.#rules, ''].join('\n');
  }

  /** An expression for the values of the schema at `path`. */
  value(schema: Json, path: string): string {
    if (schema === true) return this.#any();
    if (schema === false) throw invalid(path, 'allows nothing');
    if (!isObject(schema)) throw invalid(path, 'must be a schema: an object, true or false');
    if (++this.#depth > LIMITS.schemaDepth)
      throw invalid(path, `nests deeper than ${String(LIMITS.schemaDepth)} schemas`);
    this.#spend(1);
    const expression = this.#schema(schema, path);
    this.#depth--;
    return expression;
  }

  #schema(schema: JsonObject, path: string): string {
    const unknown = Object.keys(schema).find((keyword) => !isKnown(keyword));
    if (unknown !== undefined) throw invalid(`${path}.${unknown.slice(0, 64)}`, 'cannot be enforced');

    if (schema['$ref'] !== undefined) return this.#reference(schema, path);
    for (const keyword of ['allOf', 'anyOf', 'oneOf'] as const)
      if (schema[keyword] !== undefined) return this.#combination(keyword, schema, path);
    if (schema['const'] !== undefined || schema['enum'] !== undefined) return this.#constants(schema, path);

    const types = typesOf(schema);
    if (types === null) throw invalid(`${path}.type`, 'must name types of JSON');
    const isFree = Object.keys(schema).every((keyword) => isAnnotation(keyword));
    return isFree ? this.#any() : this.#choice(types.map((type) => this.#typed(type, schema, path)));
  }

  #typed(type: TypeName, schema: JsonObject, path: string): string {
    switch (type) {
      case 'object':
        return this.object(schema, path);
      case 'array':
        return this.#array(schema, path);
      case 'string':
        return this.#string(schema, path);
      case 'number':
      case 'integer':
        return this.#number(type, schema, path);
      case 'boolean':
        return '("true" | "false")';
      case 'null':
        return '"null"';
    }
  }

  // ---- what may be several things ---------------------------------------------------------------

  #any(): string {
    const known = this.#references.get('any');
    if (known !== undefined) return known;
    const name = this.#reserve('any');
    const types: readonly TypeName[] = ['object', 'array', 'string', 'number', 'boolean', 'null'];
    this.#write(name, types.map((type) => this.#typed(type, {}, '')).join(' | '));
    return name;
  }

  #reference(schema: JsonObject, path: string): string {
    const other = Object.keys(schema).find((keyword) => keyword !== '$ref' && !isAnnotation(keyword));
    if (other !== undefined) throw invalid(`${path}.${other}`, 'cannot stand beside $ref');
    const reference = schema['$ref'] as string;
    const known = this.#references.get(reference);
    if (known !== undefined) return known;
    const target = this.#resolve(schema, path);
    const name = this.#reserve(reference);
    this.#write(name, this.value(target, path));
    return name;
  }

  /** A small schema can ask for much by pointing to the same places again and again. */
  #spend(work: number): void {
    this.#work += work;
    if (this.#work > LIMITS.schemaWork) throw invalid(this.#param, 'asks for too much once its parts are put together');
  }

  /** Follows a `$ref`, and those behind it. */
  #resolve(schema: Json, path: string): Json {
    this.#spend(1);
    let found = schema;
    for (let steps = 0; isObject(found) && found['$ref'] !== undefined; steps++) {
      const reference = found['$ref'];
      if (typeof reference !== 'string' || !/^#(\/|$)/.test(reference) || steps > LIMITS.schemaDepth)
        throw invalid(`${path}.$ref`, 'must point into this schema: "#/$defs/NAME"');
      let target: Json | undefined = this.#root;
      for (const part of reference.split('/').slice(1)) {
        const name = decodePercent(part)?.replaceAll('~1', '/').replaceAll('~0', '~');
        const holder: Json | undefined = target;
        target = undefined;
        if (name !== undefined && typeof holder === 'object' && holder !== null && Object.hasOwn(holder, name))
          target = (holder as JsonObject)[name];
      }
      if (target === undefined) throw invalid(`${path}.$ref`, 'points to nothing in this schema');
      found = target;
    }
    return found;
  }

  /** `allOf`, `anyOf` and `oneOf`, each merged with what stands beside it. */
  #combination(keyword: 'allOf' | 'anyOf' | 'oneOf', schema: JsonObject, path: string): string {
    const { [keyword]: parts, ...beside } = schema;
    const place = `${path}.${keyword}`;
    if (!Array.isArray(parts) || parts.length === 0) throw invalid(place, 'must be a list of schemas');
    const isPlain = Object.keys(beside).every((name) => isAnnotation(name));
    const merged = (a: Json, b: Json): JsonObject => {
      const [one, other] = [this.#resolve(a, place), this.#resolve(b, place)];
      const both = isObject(one) && isObject(other) ? merge(one, other) : null;
      this.#spend(Object.keys(both?.['properties'] ?? {}).length);
      if (both === null) throw invalid(place, 'cannot be enforced: the schemas do not make one together');
      return both;
    };
    const alternatives = parts as readonly Json[];
    if (keyword === 'allOf') {
      if (isPlain && alternatives.length === 1) return this.value(alternatives[0] as Json, `${place}[0]`);
      return this.value(
        alternatives.reduce<JsonObject>((all, part) => merged(all, part), withoutNotes(beside)),
        place,
      );
    }
    if (keyword === 'oneOf') this.#checkDisjoint(alternatives, place);
    return this.#choice(
      alternatives.map((part, index) =>
        this.value(isPlain ? part : merged(withoutNotes(beside), part), `${place}[${String(index)}]`),
      ),
    );
  }

  /** A value that is of two of them is of neither. */
  #checkDisjoint(parts: readonly Json[], place: string): void {
    const resolve = (schema: Json): JsonObject | null => {
      const found = this.#resolve(schema, place);
      return isObject(found) ? found : null;
    };
    parts.forEach((part, index) => {
      for (const other of parts.slice(0, index)) {
        const [a, b] = [resolve(part), resolve(other)];
        if (a === null || b === null || !areDisjoint(a, b, resolve))
          throw invalid(
            place,
            'cannot be enforced: a value may be of two of them (use anyOf, or tell them apart by a const)',
          );
      }
    });
  }

  #constants(schema: JsonObject, path: string): string {
    const values = schema['enum'] ?? [schema['const'] as Json];
    if (!Array.isArray(values)) throw invalid(`${path}.enum`, 'must be a list of values');
    const other = Object.keys(schema).find((name) => !isAnnotation(name) && !['enum', 'const', 'type'].includes(name));
    if (other !== undefined) throw invalid(`${path}.${other}`, 'cannot stand beside enum or const');
    const types = schema['type'] === undefined ? null : (typesOf(schema) ?? []);
    const fits = (value: Json): boolean => {
      const type = typeOf(value);
      const isOfType = types === null || types.includes(type) || (type === 'integer' && types.includes('number'));
      return isOfType && (schema['const'] === undefined || isSame(value, schema['const']));
    };
    this.#spend(values.length);
    const allowed = (values as readonly Json[]).filter(fits);
    if (allowed.length === 0) throw invalid(path, 'allows nothing');
    if (allowed.length > LIMITS.schemaEnumValues)
      throw invalid(`${path}.enum`, `must have at most ${String(LIMITS.schemaEnumValues)} values`);
    return this.#choice(allowed.map((value) => literal(JSON.stringify(value))));
  }

  // ---- objects ----------------------------------------------------------------------------------

  object(schema: JsonObject, path: string): string {
    const properties = schema['properties'] ?? {};
    const required = schema['required'] ?? [];
    const additional = schema['additionalProperties'];
    if (!isObject(properties)) throw invalid(`${path}.properties`, 'must be an object of schemas');
    if (!Array.isArray(required)) throw invalid(`${path}.required`, 'must be a list of names');

    const members = new Map<string, { readonly expression: string; readonly isRequired: boolean }>();
    const add = (name: string, property: Json, place: string): void => {
      const isRequired = required.includes(name);
      // An optional property that can have no value is left out.
      if (property === false && !isRequired) return;
      members.set(name, {
        expression: `${literal(`${JSON.stringify(name)}: `)} ${this.value(property, place)}`,
        isRequired,
      });
    };
    for (const [name, property] of Object.entries(properties))
      add(name, property, `${path}.properties.${name.slice(0, 64)}`);
    for (const name of required as readonly Json[]) {
      if (typeof name !== 'string') throw invalid(`${path}.required`, 'must be a list of names');
      if (Object.hasOwn(properties, name)) continue;
      if (additional === false) throw invalid(`${path}.required`, `names a property that is not allowed`);
      add(name, additional ?? true, `${path}.additionalProperties`);
    }
    const isOpen = isObject(additional) || (members.size === 0 && additional !== false);
    const others = isOpen
      ? `${this.#key([...Object.keys(properties), ...members.keys()])} ": " ${this.value(additional ?? true, `${path}.additionalProperties`)}`
      : null;
    this.#checkCounts(schema, path, members, others !== null);
    return this.#rule(`"{" ${this.#members([...members.values()], others === null ? null : this.#rule(others))} "}"`);
  }

  /** How many there are is known only of the named ones. */
  #checkCounts(
    schema: JsonObject,
    path: string,
    members: ReadonlyMap<string, { readonly isRequired: boolean }>,
    hasOthers: boolean,
  ): void {
    const least = [...members.values()].filter(({ isRequired }) => isRequired).length;
    const min = this.#count(schema, 'minProperties', path) ?? 0;
    const max = this.#count(schema, 'maxProperties', path) ?? Infinity;
    if (min > least) throw invalid(`${path}.minProperties`, 'cannot be enforced: require the properties by name');
    if (max < (hasOthers ? Infinity : members.size))
      throw invalid(`${path}.maxProperties`, 'cannot be enforced: name fewer properties');
  }

  /** Those that are left, from the last to the first: once nothing is written yet, once behind a comma. */
  #members(members: readonly { expression: string; isRequired: boolean }[], others: string | null): string {
    let fresh = others === null ? '""' : `(${others} (", " ${others})*)?`;
    let following = others === null ? '""' : `(", " ${others})*`;
    for (const { expression, isRequired } of [...members].reverse()) {
      const member = this.#rule(expression);
      const rest = following === '""' ? '' : ` ${this.#rule(following)}`;
      const [first, next] = [`${member}${rest}`, `", " ${member}${rest}`];
      const skipped = fresh === '""' ? '""' : this.#rule(fresh);
      fresh = isRequired ? first : `${first} | ${skipped}`;
      following = isRequired ? next : `${next} | ${following === '""' ? '""' : this.#rule(following)}`;
    }
    return fresh.includes('|') ? `(${fresh})` : fresh;
  }

  /** A key that is none of these. */
  #key(names: readonly string[]): string {
    const taken = [...new Set(names)].map((name) => [...name]);
    return this.#rule(`"\\"" ${this.#otherThan(taken)} "\\""`);
  }

  /** Character by character: one that leads on to a name goes on so, every other one may be followed by anything. */
  #otherThan(names: readonly (readonly string[])[]): string {
    const rest = this.#rule(`${KEY_CHARACTER}*`);
    if (names.length === 0) return rest;
    const byFirst = new Map<string, (readonly string[])[]>();
    for (const [first, ...tail] of names)
      if (first !== undefined) byFirst.set(first, [...(byFirst.get(first) ?? []), tail]);
    const parts = [...byFirst]
      .filter(([first]) => intersect(PLAIN, [[first.codePointAt(0) ?? 0, first.codePointAt(0) ?? 0]]).length > 0)
      .map(([first, tails]) => `${literal(first)} ${this.#rule(this.#otherThan(tails))}`);
    const firsts = [...byFirst.keys()].map((first): Range => [first.codePointAt(0) ?? 0, first.codePointAt(0) ?? 0]);
    const others = characterOf(intersect(PLAIN, complement(firsts)));
    if (others !== null) parts.push(`${others} ${rest}`);
    if (!names.some((name) => name.length === 0)) parts.push('""');
    return `(${parts.join(' | ')})`;
  }

  // ---- arrays -----------------------------------------------------------------------------------

  #array(schema: JsonObject, path: string): string {
    const isTuple = Array.isArray(schema['items']);
    const prefixWord = isTuple ? 'items' : 'prefixItems';
    const prefix = schema[prefixWord] ?? [];
    const restWord = isTuple ? 'additionalItems' : 'items';
    const rest = schema[restWord];
    if (!Array.isArray(prefix)) throw invalid(`${path}.${prefixWord}`, 'must be a list of schemas');
    const min = this.#count(schema, 'minItems', path) ?? 0;
    const max = this.#count(schema, 'maxItems', path) ?? Infinity;
    if (min > max) throw invalid(`${path}.minItems`, 'is above maxItems');
    if (schema['uniqueItems'] === true && max > 1) throw invalid(`${path}.uniqueItems`, 'cannot be enforced');

    const items = (prefix as readonly Json[])
      .slice(0, max === Infinity ? undefined : max)
      .map((item, index) => this.value(item, `${path}.${prefixWord}[${String(index)}]`));
    if (rest === false && min > items.length)
      throw invalid(`${path}.minItems`, 'asks for more items than there may be');
    // Behind a prefix nothing more is written than has to be, unless a schema says what.
    const isOpen = rest !== false && (items.length === 0 || isObject(rest) || min > items.length);
    const more = isOpen ? this.value(rest ?? true, `${path}.${restWord}`) : '';
    const least = Math.max(0, min - items.length);
    const most = !isOpen ? 0 : items.length > 0 && !isObject(rest) ? least : max - items.length;
    const tail = most === 0 ? '' : repeated(`(", " ${more})`, least, most);
    if (items.length > 0) return this.#rule(`"[" ${[items.join(' ", " '), tail].join(' ')} "]"`);
    if (most === 0) return '"[]"';
    const list = `${more} ${repeated(`(", " ${more})`, Math.max(0, least - 1), most - 1)}`;
    return this.#rule(`"[" ${least === 0 ? `(${list})?` : list} "]"`);
  }

  // ---- strings and numbers ----------------------------------------------------------------------

  #string(schema: JsonObject, path: string): string {
    const { pattern, format } = schema;
    const min = this.#count(schema, 'minLength', path) ?? 0;
    const max = this.#count(schema, 'maxLength', path) ?? Infinity;
    if (min > max) throw invalid(`${path}.minLength`, 'is above maxLength');
    if (pattern === undefined && format === undefined) {
      return this.#rule(`"\\"" ${repeated(this.#rule(CHARACTER), min, max)} "\\""`);
    }
    const word = pattern === undefined ? 'format' : 'pattern';
    if (min > 0 || max < Infinity || (pattern !== undefined && format !== undefined))
      throw invalid(`${path}.${word}`, 'cannot be enforced beside another word about the string');
    return this.#rule(
      `"\\"" (${pattern === undefined ? this.#format(format, path) : this.#pattern(pattern, path)}) "\\""`,
    );
  }

  #format(format: Json | undefined, path: string): string {
    const known = typeof format === 'string' && Object.hasOwn(FORMATS, format) ? FORMATS[format] : undefined;
    if (known === undefined)
      throw invalid(`${path}.format`, `cannot be enforced: it must be one of ${Object.keys(FORMATS).join(', ')}`);
    return known;
  }

  #pattern(pattern: Json, path: string): string {
    const place = `${path}.pattern`;
    if (typeof pattern !== 'string') throw invalid(place, 'must be a regular expression');
    if (pattern.length > LIMITS.schemaPatternLength)
      throw invalid(place, `must have a length of at most ${String(LIMITS.schemaPatternLength)}`);
    this.#spend(pattern.length);
    try {
      return patternToGbnf(pattern);
    } catch (error) {
      if (error instanceof PatternError) throw invalid(place, `cannot be enforced: it ${error.message}`);
      throw error;
    }
  }

  #number(type: 'number' | 'integer', schema: JsonObject, path: string): string {
    if (schema['multipleOf'] !== undefined && !(type === 'integer' && schema['multipleOf'] === 1))
      throw invalid(`${path}.multipleOf`, 'cannot be enforced');
    const bound = (name: string): number | undefined => {
      const value = schema[name];
      if (value === undefined) return undefined;
      if (typeof value !== 'number') throw invalid(`${path}.${name}`, 'must be number');
      return value;
    };
    const [min, max] = [bound('minimum'), bound('maximum')];
    const [above, below] = [bound('exclusiveMinimum'), bound('exclusiveMaximum')];
    if ([min, max, above, below].every((value) => value === undefined))
      return this.#rule(type === 'integer' ? INTEGER : NUMBER);
    const bounds: Bounds = {
      min: Math.max(min ?? -LARGEST, above ?? -LARGEST),
      max: Math.min(max ?? LARGEST, below ?? LARGEST),
      excludesMin: above !== undefined && above >= (min ?? -Infinity),
      excludesMax: below !== undefined && below <= (max ?? Infinity),
    };
    const expression = type === 'integer' ? integerBetween(bounds) : numberBetween(bounds);
    if (expression === null)
      throw invalid(path, `allows no number that can be written with ${String(LARGEST).length} digits`);
    return this.#rule(expression);
  }

  #count(schema: JsonObject, keyword: string, path: string): number | undefined {
    const value = schema[keyword];
    if (value === undefined) return undefined;
    if (typeof value !== 'number' || !Number.isInteger(value) || value < 0)
      throw invalid(`${path}.${keyword}`, 'must be a whole number that is not negative');
    if (value > LIMITS.schemaRepetitions)
      throw invalid(`${path}.${keyword}`, `must be at most ${String(LIMITS.schemaRepetitions)}`);
    return value;
  }

  // ---- rules ------------------------------------------------------------------------------------

  #choice(expressions: readonly string[]): string {
    const different = [...new Set(expressions)];
    return different.length === 1 ? (different[0] as string) : this.#rule(different.join(' | '));
  }

  #rule(expression: string): string {
    const known = this.#names.get(expression);
    if (known !== undefined) return known;
    const name = `r${String(this.#names.size)}`;
    this.#names.set(expression, name);
    this.#write(name, expression);
    return name;
  }

  #reserve(reference: string): string {
    const name = `d${String(this.#references.size)}`;
    this.#references.set(reference, name);
    return name;
  }

  #write(name: string, expression: string): void {
    const rule = `${name} ::= ${expression}`;
    this.#length += rule.length;
    if (this.#length > LIMITS.grammarBytes)
      throw invalid(this.#param, `is too large: its grammar has more than ${String(LIMITS.grammarBytes)} bytes`);
    this.#rules.push(rule);
  }
}

function repeated(item: string, min: number, max: number): string {
  if (max === Infinity) return min === 0 ? `${item}*` : `${item}{${String(min)},}`;
  return max === 0 ? '""' : `${item}{${String(min)},${String(max)}}`;
}

function withoutNotes(schema: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(schema).filter(([keyword]) => !isAnnotation(keyword)));
}

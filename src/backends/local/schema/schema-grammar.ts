/**
 * Compiles a JSON Schema to a grammar whose every text is valid against the schema.
 *
 * The grammar may be narrower than the schema, never wider: a keyword that cannot be enforced is an error that names
 * its place, or is left out if the client asks for that. The grammar is narrower in these points: fixed formatting
 * (`{"a": 1, "b": [true]}`, properties in schema order), no \u escapes, integers of at most 20 digits, at most 32
 * levels in a value without a schema, and no additional properties unless `additionalProperties` is `true` or a schema.
 * With fixed formatting most tokens are forced, and forced tokens need not be computed. Strings, keys and commas are
 * written in a notation (notation.ts), which is JSON's unless said otherwise.
 *
 * Everything that may repeat is its own rule, and equal rules are shared, so that equal positions in the grammar are
 * equal states of the automaton that follows it.
 */
import { invalid } from '../../../protocol/validate.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { bounded } from './bounded.ts';
import { ANY, literal, repeated } from './characters.ts';
import { constantsOf } from './constants.ts';
import {
  isAnnotation,
  isKnown,
  isObject,
  knownOf,
  typesOf,
  withoutNotes,
  type Json,
  type JsonObject,
  type TypeName,
} from './keywords.ts';
import { keyOtherThan } from './keys.ts';
import { leaveOutIf, type LeaveOut } from './leave-out.ts';
import { areDisjoint } from './merge.ts';
import { JSON_NOTATION, type Notation } from './notation.ts';
import { boundsOf, DIGITS, INTEGER, integerBetween, NUMBER, numberBetween } from './numbers.ts';
import { References } from './references.ts';
import { Rules } from './rules.ts';
import { textOf } from './strings.ts';
import { Work } from './work.ts';

/** Levels to which a value without a schema may nest. Parsers of tool calls refuse more than about 60. */
const ANY_LEVELS = 32;

/** Any JSON object. */
export function jsonGrammar(): string {
  const compiler = new SchemaCompiler(true, '', new Work(''));
  return compiler.grammar(compiler.object({}, ''));
}

/**
 * `param`: name of the schema in errors. `isLenient`: what cannot be enforced is left out. Throws INVALID_REQUEST with
 * the place in the schema.
 */
export function schemaGrammar(schema: unknown, param: string, isLenient = false): string {
  return bounded(schema, param, () => {
    const compiler = new SchemaCompiler(schema as Json, param, new Work(param), { isLenient });
    return compiler.grammar(compiler.value(schema as Json, param));
  });
}

type AnyValue = Readonly<Record<'root' | 'rules', string>>;
const anyValues = new Map<Notation, AnyValue>();

/** A property of an object, and the path of its schema in errors. */
export interface Property {
  readonly name: string;
  readonly value: Json;
  readonly path: string;
  readonly isRequired: boolean;
}

interface CompilerOptions {
  /** Beginning of the names of all rules. */
  readonly prefix?: string;
  readonly notation?: Notation;
  /** Keywords that cannot be enforced are left out instead of refused. */
  readonly isLenient?: boolean;
}

/** Rules for the values of one schema. */
export class SchemaCompiler {
  readonly #references: References;
  readonly #work: Work;
  readonly #notation: Notation;
  readonly #isLenient: boolean;
  readonly #leaveOut: LeaveOut;
  readonly rules: Rules;
  /** Rule name of each `$ref` with the keywords beside it, reserved before the rule is written: it may be recursive. */
  readonly #ruleOf = new Map<string, string>();
  /** Name of the rule for any value; null: no rule refers to it yet. */
  #anyRule: string | null = null;
  #depth = 0;

  /** `param`: name of the schema in errors. */
  constructor(root: Json, param: string, work: Work, options: CompilerOptions = {}) {
    const { prefix = '', notation = JSON_NOTATION, isLenient = false } = options;
    this.#leaveOut = leaveOutIf(isLenient);
    this.#references = new References(root, work, this.#leaveOut);
    this.#work = work;
    this.#notation = notation;
    this.#isLenient = isLenient;
    this.rules = new Rules(param, prefix, work);
  }

  /** GBNF expression for the values that `schema` allows; `path` names it in errors. */
  value(schema: Json, path: string): string {
    if (schema === true) return this.#any();
    if (schema === false) throw invalid(path, 'allows no value');
    if (!isObject(schema)) throw invalid(path, 'must be a schema: an object, true or false');
    return this.#nested(path, () => {
      this.#work.visit(schema);
      return this.#schema(schema, path);
    });
  }

  #nested<Result>(path: string, compile: () => Result): Result {
    if (this.#depth >= LIMITS.schemaDepth)
      throw invalid(path, `nests deeper than ${String(LIMITS.schemaDepth)} schemas`);
    this.#depth++;
    try {
      return compile();
    } finally {
      this.#depth--;
    }
  }

  #schema(given: JsonObject, path: string): string {
    for (const name of Object.keys(given)) if (!isKnown(name)) this.#leaveOut(`${path}.${name.slice(0, 64)}`);
    const schema = this.#isLenient ? knownOf(given) : given;

    if (schema['$ref'] !== undefined) return this.#reference(schema, path);
    const alternatives = this.#alternatives(schema, path);
    if (alternatives !== null) return this.rules.choice(alternatives.map(([part, place]) => this.value(part, place)));
    if (schema['const'] !== undefined || schema['enum'] !== undefined) return this.#constants(schema, path);

    const types = typesOf(schema);
    if (types === null) throw invalid(`${path}.type`, 'must name JSON types');
    const isFree = Object.keys(schema).every((keyword) => isAnnotation(keyword));
    return isFree ? this.#any() : this.rules.choice(types.map((type) => this.#typed(type, schema, path)));
  }

  #typed(type: TypeName, schema: JsonObject, path: string): string {
    switch (type) {
      case 'object':
        return this.object(schema, path);
      case 'array':
        return this.#array(schema, path);
      case 'string':
        return this.string(schema, path);
      case 'number':
      case 'integer':
        return this.#number(type, schema, path);
      case 'boolean':
        return '("true" | "false")';
      case 'null':
        return '"null"';
    }
  }

  // ---- alternatives, references and combinations ------------------------------------------------

  #any(): string {
    return (this.#anyRule ??= SchemaCompiler.anyValue(this.#notation).root);
  }

  /** The whole grammar, with the rules for any value if it needs them. Its root is `expression`. */
  grammar(expression: string): string {
    const any = this.#anyRule === null ? '' : SchemaCompiler.anyValue(this.#notation).rules;
    return this.rules.grammar(expression) + any;
  }

  /** Rules for any value, and the name of their root. Grammars that are joined need them once. */
  static anyValue(notation: Notation): AnyValue {
    const known = anyValues.get(notation);
    if (known !== undefined) return known;
    const compiler = new SchemaCompiler(true, '', new Work(''), { prefix: notation.anyPrefix, notation });
    const expressions = (types: readonly TypeName[]): string[] => types.map((type) => compiler.#typed(type, {}, ''));
    const flat = compiler.rules.choice(expressions(['string', 'number', 'boolean', 'null']));
    compiler.#anyRule = flat;
    // Each level's objects and arrays hold the values of the level before.
    for (let level = 0; level < ANY_LEVELS; level++)
      compiler.#anyRule = compiler.rules.choice([...expressions(['object', 'array']), flat]);
    const made = { root: compiler.#anyRule, rules: compiler.rules.text };
    anyValues.set(notation, made);
    return made;
  }

  #reference(schema: JsonObject, path: string): string {
    const keywords = withoutNotes(schema);
    this.#work.read(keywords);
    const reference = JSON.stringify(keywords);
    const known = this.#ruleOf.get(reference);
    if (known !== undefined) return known;
    const target = this.#references.resolve(schema, path);
    const name = this.rules.reserve();
    this.#ruleOf.set(reference, name);
    this.rules.write(name, this.value(target, path));
    return name;
  }

  /**
   * The parts of `allOf` (one), `anyOf` or `oneOf`, merged with the keywords beside them. null: it has none of them.
   */
  #alternatives(schema: JsonObject, path: string): readonly (readonly [schema: Json, path: string])[] | null {
    const keyword = (['allOf', 'anyOf', 'oneOf'] as const).find((name) => schema[name] !== undefined);
    if (keyword === undefined) return null;
    const { [keyword]: parts, ...beside } = schema;
    const place = `${path}.${keyword}`;
    if (!Array.isArray(parts) || parts.length === 0) throw invalid(place, 'must be a list of schemas');
    const isPlain = Object.keys(beside).every((name) => isAnnotation(name));
    const merged = (a: Json, b: Json): Json => this.#references.merged(a, b, place);
    const alternatives = parts as readonly Json[];
    const keywords = withoutNotes(beside);
    if (keyword === 'allOf') {
      if (isPlain && alternatives.length === 1) return [[alternatives[0] as Json, `${place}[0]`]];
      return [[alternatives.reduce<Json>((all, part) => merged(all, part), keywords), place]];
    }
    if (keyword === 'oneOf') this.#checkDisjoint(alternatives, place);
    return alternatives.map((part, index) => [isPlain ? part : merged(keywords, part), `${place}[${String(index)}]`]);
  }

  /** The schema's alternatives, none of which is a reference or a combination. */
  leaves(schema: Json, path: string): readonly (readonly [schema: JsonObject, path: string])[] {
    return this.#nested(path, () => {
      const found = this.#references.resolve(schema, path);
      if (found === false) return [];
      const leaf = isObject(found) ? found : {};
      return this.#alternatives(leaf, path)?.flatMap(([part, place]) => this.leaves(part, place)) ?? [[leaf, path]];
    });
  }

  /** Throws unless the schemas of a `oneOf` are pairwise disjoint: a value that matches two is invalid. */
  #checkDisjoint(parts: readonly Json[], place: string): void {
    const resolve = (schema: Json): JsonObject | null => {
      const found = this.#references.resolve(schema, place);
      if (!isObject(found)) return null;
      this.#work.read([found['enum'], found['const'], found['required']]);
      return found;
    };
    parts.forEach((part, index) => {
      for (const other of parts.slice(0, index)) {
        const [a, b] = [resolve(part), resolve(other)];
        if (a === null || b === null || !areDisjoint(a, b, resolve))
          this.#leaveOut(
            place,
            'cannot be enforced: a value may match two of the schemas (use anyOf, or distinguish them by a const)',
          );
      }
    });
  }

  #constants(schema: JsonObject, path: string): string {
    return this.rules.choice(this.constants(schema, path).map((value) => this.#constant(value, path)));
  }

  /** The values that a schema with `enum` or `const` allows; at least one. */
  constants(schema: JsonObject, path: string): readonly Json[] {
    return constantsOf(schema, path, this.#work, this.#leaveOut);
  }

  #constant(value: Json, path: string): string {
    if (this.#notation === JSON_NOTATION || typeof value !== 'object' || value === null) {
      return typeof value === 'string' ? this.#quoted(value, path) : literal(JSON.stringify(value));
    }
    throw invalid(path, 'cannot be enforced: it allows only some objects or lists');
  }

  #quoted(value: string, path: string): string {
    const { quote } = this.#notation;
    const text = this.#notation.text(value);
    if (text === null) throw invalid(path, 'cannot be enforced: its text cannot be written');
    return `${quote} ${text} ${quote}`;
  }

  // ---- objects ----------------------------------------------------------------------------------

  object(schema: JsonObject, path: string): string {
    const { additionalProperties: additional } = schema;
    const named = this.properties(schema, path);
    const members = named.map(({ name, value, path: place, isRequired }) => {
      const key = this.#notation.keyOf(name);
      if (key === null) throw invalid(place, 'cannot be enforced: its name cannot be written');
      return { expression: `${key} ${this.value(value, place)}`, isRequired };
    });
    const names = this.#names(schema, path);
    const isOpen = !(names instanceof Set) && (additional ?? named.length === 0) !== false;
    const taken = [...Object.keys((schema['properties'] ?? {}) as JsonObject), ...named.map(({ name }) => name)];
    const others = isOpen
      ? this.rules.nameOf(
          `${this.#otherKey(taken, names, path)} ${this.value(additional ?? true, `${path}.additionalProperties`)}`,
        )
      : null;
    this.#checkCounts(schema, path, named, others !== null);
    return this.rules.nameOf(`"{" ${this.#members(members, others)} "}"`);
  }

  /** A key of an object that is none of `taken`, and what stands between it and the value. */
  #otherKey(taken: readonly string[], names: JsonObject | null, path: string): string {
    this.#work.spend(taken.reduce((sum, name) => sum + name.length, 0));
    if (names === null) return this.#notation.key(keyOtherThan(taken, this.#notation, this.rules));
    const place = `${path}.propertyNames`;
    if (this.#notation !== JSON_NOTATION)
      throw invalid(place, 'cannot be enforced where names are written without quotes');
    return `${this.value(names, place)} ${literal(': ')}`;
  }

  /** What `propertyNames` allows: names, or strings of a schema; null: any. */
  #names(schema: JsonObject, path: string): Set<string> | JsonObject | null {
    const { propertyNames: given, properties, required } = schema;
    if (given === undefined) return null;
    const place = `${path}.propertyNames`;
    const names = this.#references.merged({ type: 'string' }, given, place);
    if (!isObject(names)) {
      this.#leaveOut(place, 'allows no property: use additionalProperties: false');
      return null;
    }
    if (names['enum'] !== undefined || names['const'] !== undefined)
      return new Set(this.constants(names, place) as readonly string[]);
    if (Object.keys(withoutNotes(names)).length === 1) return null;
    if (properties === undefined && required === undefined) return names;
    this.#leaveOut(place, 'cannot be enforced together with properties or required, unless it is an enum');
    return null;
  }

  /** The properties that the schema of an object names and allows. */
  properties(schema: JsonObject, path: string): readonly Property[] {
    const { properties = {}, required = [], additionalProperties: additional } = schema;
    const names = this.#names(schema, path);
    const mayBe = (name: string): boolean => !(names instanceof Set) || names.has(name);
    if (!isObject(properties)) throw invalid(`${path}.properties`, 'must be an object of schemas');
    if (!Array.isArray(required)) throw invalid(`${path}.required`, 'must be a list of names');
    this.#work.read([Object.keys(properties), required]);
    const requiredNames = new Set<Json>(required as readonly Json[]);
    const named = Object.entries(properties)
      .map(([name, value]) => ({
        name,
        value,
        path: `${path}.properties.${name.slice(0, 64)}`,
        isRequired: requiredNames.has(name),
      }))
      // An optional property that allows no value is omitted.
      .filter(({ name, value, isRequired }) => (value !== false && mayBe(name)) || isRequired);
    const others = new Set(names instanceof Set && additional !== false ? names : []);
    for (const name of requiredNames) {
      if (typeof name !== 'string') throw invalid(`${path}.required`, 'must be a list of names');
      if (mayBe(name) && Object.hasOwn(properties, name)) continue;
      if (additional === false || !mayBe(name))
        throw invalid(`${path}.required`, `names a property that is not allowed`);
      others.add(name);
    }
    const place = `${path}.additionalProperties`;
    const all = [
      ...named,
      ...[...others]
        .filter((name) => !Object.hasOwn(properties, name))
        .map((name) => ({ name, value: additional ?? true, path: place, isRequired: requiredNames.has(name) })),
    ];
    const long = all.find(({ name }) => name.length > LIMITS.schemaNameLength);
    if (long !== undefined)
      throw invalid(long.path, `must have a name of at most ${String(LIMITS.schemaNameLength)} characters`);
    return all;
  }

  /** The number of properties can only be enforced for named ones. */
  #checkCounts(schema: JsonObject, path: string, named: readonly Property[], hasOthers: boolean): void {
    const least = named.filter(({ isRequired }) => isRequired).length;
    const min = this.#count(schema, 'minProperties', path) ?? 0;
    const max = this.#count(schema, 'maxProperties', path) ?? Infinity;
    if (min > least) this.#leaveOut(`${path}.minProperties`, 'cannot be enforced: require the properties by name');
    if (max < (hasOthers ? Infinity : named.length))
      this.#leaveOut(`${path}.maxProperties`, 'cannot be enforced: name fewer properties');
  }

  /** Built from the last member to the first, in two variants: `fresh` if it is the first written, else `following`. */
  #members(members: readonly { expression: string; isRequired: boolean }[], others: string | null): string {
    const { comma } = this.#notation;
    let fresh = others === null ? '""' : `(${others} (${comma} ${others})*)?`;
    let following = others === null ? '""' : `(${comma} ${others})*`;
    for (const { expression, isRequired } of [...members].reverse()) {
      const member = this.rules.nameOf(expression);
      const rest = following === '""' ? '' : ` ${this.rules.nameOf(following)}`;
      const [first, next] = [`${member}${rest}`, `${comma} ${member}${rest}`];
      const skipped = fresh === '""' ? '""' : this.rules.nameOf(fresh);
      fresh = isRequired ? first : `${first} | ${skipped}`;
      following = isRequired ? next : `${next} | ${following === '""' ? '""' : this.rules.nameOf(following)}`;
    }
    return fresh.includes('|') ? `(${fresh})` : fresh;
  }

  // ---- arrays -----------------------------------------------------------------------------------

  #array(schema: JsonObject, path: string): string {
    const { comma } = this.#notation;
    const isTuple = Array.isArray(schema['items']);
    if (isTuple && schema['prefixItems'] !== undefined)
      throw invalid(`${path}.items`, 'must be one schema, because prefixItems is given');
    const prefixWord = isTuple ? 'items' : 'prefixItems';
    const prefix = schema[prefixWord] ?? [];
    const restWord = isTuple ? 'additionalItems' : 'items';
    const rest = schema[restWord];
    if (!Array.isArray(prefix)) throw invalid(`${path}.${prefixWord}`, 'must be a list of schemas');
    const min = this.#count(schema, 'minItems', path) ?? 0;
    const max = this.#count(schema, 'maxItems', path) ?? Infinity;
    if (min > max) throw invalid(`${path}.minItems`, 'is greater than maxItems');
    if (schema['uniqueItems'] === true && max > 1) this.#leaveOut(`${path}.uniqueItems`);

    const items = (prefix as readonly Json[])
      .slice(0, max === Infinity ? undefined : max)
      .map((item, index) => this.value(item, `${path}.${prefixWord}[${String(index)}]`));
    if (rest === false && min > items.length) throw invalid(`${path}.minItems`, 'requires more items than are allowed');
    // After a prefix only the required number of items is written, unless more are allowed explicitly.
    const isOpen = (rest ?? (items.length === 0 || min > items.length)) !== false;
    const more = isOpen ? this.value(rest ?? true, `${path}.${restWord}`) : '';
    const least = Math.max(0, min - items.length);
    const most = !isOpen ? 0 : items.length > 0 && rest === undefined ? least : max - items.length;
    const tail = most === 0 ? '' : repeated(`(${comma} ${more})`, least, most);
    if (items.length > 0) return this.rules.nameOf(`"[" ${[items.join(` ${comma} `), tail].join(' ')} "]"`);
    if (most === 0) return '"[]"';
    const list = `${more} ${repeated(`(${comma} ${more})`, Math.max(0, least - 1), most - 1)}`;
    return this.rules.nameOf(`"[" ${least === 0 ? `(${list})?` : list} "]"`);
  }

  // ---- strings and numbers ----------------------------------------------------------------------

  string(schema: JsonObject, path: string, notation = this.#notation): string {
    const { quote, anyString } = notation;
    const min = this.#count(schema, 'minLength', path) ?? 0;
    const max = this.#count(schema, 'maxLength', path) ?? Infinity;
    if (min > max) throw invalid(`${path}.minLength`, 'is greater than maxLength');
    if (typeof schema['pattern'] === 'string') this.#work.spend(schema['pattern'].length);
    const text = textOf(schema, [min, max], notation, path, this.#leaveOut);
    if (text !== null) return this.rules.nameOf(`${quote} (${text}) ${quote}`);
    // Characters that are counted are none that begins a tag.
    if (anyString !== null && (this.#isLenient || (min === 0 && max === Infinity)))
      return this.rules.nameOf(`${quote} ${anyString}`);
    const character = this.rules.nameOf(notation.character(ANY) ?? '""');
    return this.rules.nameOf(`${quote} ${repeated(character, min, max)} ${quote}`);
  }

  #number(type: 'number' | 'integer', schema: JsonObject, path: string): string {
    if (schema['multipleOf'] !== undefined && !(type === 'integer' && schema['multipleOf'] === 1))
      this.#leaveOut(`${path}.multipleOf`);
    const bounds = boundsOf(schema, path);
    const any = type === 'integer' ? INTEGER : NUMBER;
    if (bounds === null) return this.rules.nameOf(any);
    const expression = type === 'integer' ? integerBetween(bounds) : numberBetween(bounds);
    if (expression === null) this.#leaveOut(path, `allows no number that can be written with ${String(DIGITS)} digits`);
    return this.rules.nameOf(expression ?? any);
  }

  #count(schema: JsonObject, keyword: string, path: string): number | undefined {
    const value = schema[keyword];
    if (value === undefined) return undefined;
    if (typeof value !== 'number' || !Number.isInteger(value) || value < 0)
      throw invalid(`${path}.${keyword}`, 'must be a non-negative integer');
    if (value <= LIMITS.schemaRepetitions) return value;
    this.#leaveOut(`${path}.${keyword}`, `must be at most ${String(LIMITS.schemaRepetitions)}`);
    return undefined;
  }
}

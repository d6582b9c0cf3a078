/**
 * Grammars of a tool's arguments, for each way in which a model may write them: as one JSON object, each argument
 * apart (`<parameter=city>Ulm</parameter>`), or as an object in a notation of its own. Only the engine knows which
 * one its model's chat template has.
 */
import type { NativeArgument, NativeChat, NativeTool } from '../../../engine/addon.ts';
import { orElse } from '../../../protocol/foreign-text.ts';
import { bounded } from './bounded.ts';
import { formatText } from './formats.ts';
import { isAnnotation, typeOf, typesOf, type Json, type JsonObject } from './keywords.ts';
import { BARE, JSON_NOTATION, TAGGED } from './notation.ts';
import { SchemaCompiler, type Property } from './schema-grammar.ts';
import { Work, type ToolsBudget } from './work.ts';

export type ArgumentGrammars = Pick<NativeTool, 'grammar' | 'tagged_grammar' | 'arguments'>;

/** The rules for values without a schema, to which the grammars of all tools refer. */
export function anyValues(): Pick<NativeChat, 'any_grammar' | 'any_tagged_grammar'> {
  return {
    any_grammar: SchemaCompiler.anyValue(JSON_NOTATION).rules,
    any_tagged_grammar: SchemaCompiler.anyValue(TAGGED).rules,
  };
}

/** Grammars of a tool whose arguments may be any JSON object. */
export const ANY_ARGUMENTS: ArgumentGrammars = { grammar: '', tagged_grammar: '' };

/**
 * `prefix`: prefix of all rule names. `tools`: work that is left for all tools of the request. Without parameters, the
 * arguments are an empty object. A grammar may allow less than the schema, never more, with one exception: unless a
 * call `mustFollow` its schema, a text without JSON's quotes has any length, because only one without `<` can be
 * limited. Notations in which the schema cannot be enforced are omitted. Throws INVALID_REQUEST, naming the place in
 * the schema, if it cannot be enforced as JSON.
 */
export function argumentGrammars(
  parameters: Readonly<Record<string, unknown>>,
  param: string,
  prefix: string,
  tools: ToolsBudget,
  mustFollow: boolean,
): ArgumentGrammars {
  return bounded(parameters, param, () => {
    const schema = { type: 'object', ...parameters } as JsonObject;
    const compiler = new SchemaCompiler(schema, param, new Work(param, tools), { prefix: `${prefix}-` });
    const root = compiler.value(schema, param);
    const list = orElse(() => apart(compiler, schema, param, mustFollow), undefined);
    return {
      grammar: compiler.rules.grammar(root),
      tagged_grammar: orElse(() => {
        const options = { prefix: `${prefix}-tagged-`, notation: TAGGED, isLenient: !mustFollow };
        const tagged = new SchemaCompiler(schema, param, new Work(param, tools), options);
        return tagged.rules.grammar(tagged.value(schema, param));
      }, ''),
      ...(list === undefined ? {} : { arguments: list }),
    };
  });
}

/** undefined: the arguments are not a list of named values. */
function apart(
  compiler: SchemaCompiler,
  schema: Json,
  param: string,
  mustFollow: boolean,
): readonly NativeArgument[] | undefined {
  const [leaf, ...others] = compiler.leaves(schema, param);
  if (leaf === undefined || others.length > 0) return undefined;
  const [object, path] = leaf;
  const isNamed = object['enum'] === undefined && object['const'] === undefined && typesOf(object)?.join() === 'object';
  return isNamed
    ? compiler.properties(object, path).map((property) => argument(compiler, property, mustFollow))
    : undefined;
}

function argument(
  compiler: SchemaCompiler,
  { name, value, path, isRequired }: Property,
  mustFollow: boolean,
): NativeArgument {
  const json = compiler.rules.nameOf(compiler.value(value, path));
  const leaves = compiler.leaves(value, path).map(([leaf, place]) => new Leaf(compiler, leaf, place));
  const texts = leaves.filter((leaf) => leaf.hasStrings);
  const others = leaves.filter((leaf) => leaf.hasOthers);
  const anyText = texts.some((leaf) => leaf.isAnyString || (leaf.limitsOnlyLength && !mustFollow));
  const oneOf = (expressions: readonly string[]): string =>
    expressions.length === 0 ? '' : compiler.rules.nameOf(expressions.join(' | '));
  return {
    name,
    required: isRequired,
    json,
    any_text: anyText,
    text: anyText ? '' : orElse(() => oneOf(texts.flatMap((leaf) => leaf.text() ?? [])), ''),
    other: oneOf(others.map((leaf) => leaf.other())),
    text_may_be_json: others.every((leaf) => leaf.isAnyOther),
    scalar: leaves.every((leaf) => leaf.isScalar),
  };
}

/** One alternative of an argument's schema. */
class Leaf {
  readonly #compiler: SchemaCompiler;
  readonly #schema: JsonObject;
  readonly #path: string;
  /** The values of `enum` and `const`; null: it has neither. */
  readonly #values: readonly Json[] | null;

  constructor(compiler: SchemaCompiler, schema: JsonObject, path: string) {
    this.#compiler = compiler;
    this.#schema = schema;
    this.#path = path;
    const isList = schema['enum'] !== undefined || schema['const'] !== undefined;
    this.#values = isList ? compiler.constants(schema, path) : null;
  }

  get #otherTypes(): readonly string[] {
    return (typesOf(this.#schema) ?? []).filter((type) => type !== 'string');
  }

  get hasStrings(): boolean {
    if (this.#values !== null) return this.#values.some((value) => typeof value === 'string');
    return typesOf(this.#schema)?.includes('string') ?? false;
  }

  get hasOthers(): boolean {
    return this.#values?.some((value) => typeof value !== 'string') ?? this.#otherTypes.length > 0;
  }

  /** True if no string is invalid for anything but its length. */
  get limitsOnlyLength(): boolean {
    const { pattern, format } = this.#schema;
    return this.#values === null && this.hasStrings && pattern === undefined && formatText(format) === null;
  }

  /** True if every string is valid. */
  get isAnyString(): boolean {
    const { minLength = 0, maxLength } = this.#schema;
    return this.limitsOnlyLength && minLength === 0 && maxLength === undefined;
  }

  /** True if every value of its types other than strings is valid. */
  get isAnyOther(): boolean {
    if (this.#values !== null) return this.#values.every((value) => typeof value === 'string' || value === null);
    const isFree = Object.keys(this.#schema).every((keyword) => keyword === 'type' || isAnnotation(keyword));
    return isFree && !this.#otherTypes.includes('integer');
  }

  /** True if none of its values is a string, an object or a list. */
  get isScalar(): boolean {
    const types = this.#values?.map(typeOf) ?? typesOf(this.#schema) ?? [];
    return types.every((type) => !['string', 'object', 'array'].includes(type));
  }

  /** GBNF of its strings, written bare. undefined: none can be. */
  text(): string | undefined {
    if (this.#values === null) return this.#compiler.string(this.#schema, this.#path, BARE);
    const texts = this.#values.flatMap((value) => (typeof value === 'string' ? (BARE.text(value) ?? []) : []));
    return texts.length === 0 ? undefined : texts.join(' | ');
  }

  /** GBNF of its other values, as JSON. */
  other(): string {
    const schema =
      this.#values === null
        ? { ...this.#schema, type: this.#otherTypes }
        : { enum: this.#values.filter((value) => typeof value !== 'string') };
    return this.#compiler.value(schema, this.#path);
  }
}

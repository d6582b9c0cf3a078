/**
 * Generates requests with a text in each place where a client may put one. Derived from the schemas, so that new
 * fields are covered automatically.
 */
import type * as v from 'valibot';
import type { Definitions } from '../../src/grpc/definitions.ts';

/** The parts of a valibot schema that the tests use; each kind has some of them. */
interface Schema {
  readonly type: string;
  readonly entries?: Readonly<Record<string, Schema>>;
  readonly item?: Schema;
  readonly items?: readonly Schema[];
  readonly wrapped?: Schema;
  readonly options?: readonly unknown[];
  readonly value?: Schema;
  readonly literal?: unknown;
  readonly pipe?: readonly { readonly type: string; readonly requirement?: unknown }[];
}

/** Prefixes of names; the rest of a name is client text. */
const BEGINNINGS = ['', 'provider:', 'mine/', 'file:', 'hf:owner/', 'https://'];

/** Schemas that values were planted for, with all that they are made of. */
export const plantedSchemas = new Set<unknown>();

/** Yields values for `schema`, each with `text` in one place and otherwise minimal. */
export function* planted(schema: v.GenericSchema, text: string): Generator<unknown, void, undefined> {
  yield* within(schema, text);
}

function* within(schema: Schema, text: string): Generator<unknown, void, undefined> {
  plantedSchemas.add(schema);
  switch (schema.type) {
    case 'object':
    case 'loose_object': {
      const rest = valid(schema) as object;
      yield { ...rest, [text]: text };
      for (const [name, entry] of Object.entries(schema.entries ?? {}))
        for (const value of within(entry, text)) yield { ...rest, [name]: value };
      return;
    }
    case 'array':
      for (const value of within(schema.item!, text)) yield [value];
      break;
    case 'tuple':
      for (const [index, item] of schema.items!.entries())
        for (const value of within(item, text))
          yield schema.items!.map((other, at) => (at === index ? value : valid(other)));
      break;
    case 'union':
    case 'variant':
      for (const option of schema.options as Schema[]) yield* within(option, text);
      return;
    case 'record':
      yield { [text]: text };
      // Many records are JSON Schemas, whose patterns a library may print.
      yield { type: 'object', properties: { [text]: { type: 'string', pattern: `^(?!${text})$` } } };
      for (const value of within(schema.value!, text)) yield { [text]: value };
      break;
    case 'exact_optional':
    case 'optional':
    case 'nullable':
    case 'nullish':
      yield* within(schema.wrapped!, text);
      return;
    case 'string':
      for (const beginning of BEGINNINGS) yield beginning + text;
      return;
  }
  yield text;
}

/** Returns a minimal valid value. */
export function valid(schema: Schema | v.GenericSchema): unknown {
  const { type, entries, item, items, wrapped, options, literal, pipe = [] } = schema as Schema;
  const least = (name: string): number => Number(pipe.find((each) => each.type === name)?.requirement ?? 0);
  switch (type) {
    case 'object':
    case 'loose_object':
      return Object.fromEntries(
        Object.entries(entries ?? {})
          .filter(([, entry]) => !/optional|nullish/.test(entry.type))
          .map(([name, entry]) => [name, valid(entry)]),
      );
    case 'array':
      return Array.from({ length: least('min_length') }, () => valid(item!));
    case 'tuple':
      return items!.map(valid);
    case 'union':
    case 'variant':
      return valid(options![0] as Schema);
    case 'exact_optional':
    case 'optional':
    case 'nullable':
    case 'nullish':
      return valid(wrapped!);
    case 'picklist':
      return options![0];
    case 'literal':
      return literal;
    case 'number':
      return Math.max(1, least('min_value'));
    case 'boolean':
      return true;
    case 'record':
      return {};
    default:
      return 'aGVsbG8=';
  }
}

/** Yields messages of `type`, each with `text` in one field; `depth`: maximum nesting of messages. */
export function* plantedMessages(
  definitions: Definitions,
  type: string,
  text: string,
  depth = 4,
): Generator<Record<string, unknown>, void, undefined> {
  if (depth === 0) return;
  for (const { name, isRepeated, message } of definitions.fields(type)) {
    const values: Iterable<unknown> =
      message === null
        ? BEGINNINGS.map((beginning) => beginning + text)
        : plantedMessages(definitions, message, text, depth - 1);
    for (const value of values) yield { [name]: isRepeated ? [value] : value };
  }
}

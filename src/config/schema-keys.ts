/** Keys of the config, as its schema has them. */

/** The part of a valibot schema that leads to its keys. */
export interface Schema {
  readonly entries?: Readonly<Record<string, Schema>>;
  readonly pipe?: readonly Schema[];
  readonly wrapped?: Schema;
  /** Schema of a record's values. */
  readonly value?: Schema;
  /** Schema of the values under user-chosen keys, beside `entries`. */
  readonly rest?: Schema;
}

/** Returns the keys that the object at `path` may have; none if they are not fixed. */
export function keysAt(schema: Schema, path: readonly (string | number)[]): string[] {
  let at: Schema | undefined = schema;
  for (const key of path) {
    if (at === undefined) break;
    at = partOf(at, 'entries')?.[key] ?? partOf(at, 'rest') ?? partOf(at, 'value');
  }
  return Object.keys((at && partOf(at, 'entries')) ?? {});
}

export function partOf<Part extends 'entries' | 'value' | 'rest'>(
  schema: Schema,
  part: Part,
): Schema[Part] | undefined {
  const found = schema[part];
  // In a literal or a bound this field has a plain value, not a schema.
  if (typeof found === 'object') return found;
  const inner = [schema.wrapped, ...(schema.pipe ?? [])];
  return inner
    .filter((each) => each !== undefined && each !== schema)
    .map((each) => (each === undefined ? undefined : partOf(each, part)))
    .find((each) => each !== undefined);
}

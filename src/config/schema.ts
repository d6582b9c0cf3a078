/** Building blocks of the config file's schemas. Messages follow the setting's name. */
import * as v from 'valibot';

export const wholeNumber = (least: number, most: number) =>
  v.pipe(
    v.number('must be a number'),
    v.integer('must be a whole number'),
    v.minValue(least, `must be at least ${String(least)}`),
    v.maxValue(most, `must be at most ${String(most)}`),
  );

export const text = v.pipe(v.string('must be a string'), v.minLength(1, 'must not be empty'));

export const flag = v.boolean('must be true or false');

export const object = v.custom<object>(
  (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
  'must be an object',
);

/** An object that rejects unknown keys. */
export const section = <Entries extends v.ObjectEntries>(entries: Entries) => v.pipe(object, v.strictObject(entries));

/** A section that may be absent: each of its keys may. */
export const optionalSection = <Entries extends v.ObjectEntries>(entries: Entries) =>
  v.exactOptional(section(entries), {});

/** An object with user-chosen keys. */
export const named = <Name extends v.GenericSchema<string, string>, Value extends v.GenericSchema>(
  name: Name,
  value: Value,
) => v.pipe(object, v.record(name, value));

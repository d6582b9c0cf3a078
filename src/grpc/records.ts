/** Converts decoded messages to the records of the other listeners: same names, same order, same nulls. */
import type { Definitions } from './definitions.ts';

type Message = Readonly<Record<string, unknown>>;

/** Converts a message to a record, in which absent fields are null. */
export function toRecord(definitions: Definitions, type: string, message: Message): Record<string, unknown> {
  return convert(definitions, type, message, true);
}

/** Converts a message to a request, in which absent fields stay absent. */
export function toRequest(definitions: Definitions, type: string, message: Message): Record<string, unknown> {
  return convert(definitions, type, message, false);
}

function convert(
  definitions: Definitions,
  type: string,
  message: Message,
  withNulls: boolean,
): Record<string, unknown> {
  const result: Record<string, unknown> = {};
  for (const { name, isRepeated, message: inner } of definitions.fields(type)) {
    const value = message[name] ?? null;
    if (value === null) {
      if (withNulls) result[name] = null;
    } else if (inner === null) {
      result[name] = value;
    } else if (isRepeated) {
      result[name] = (value as Message[]).map((each) => convert(definitions, inner, each, withNulls));
    } else {
      result[name] = convert(definitions, inner, value as Message, withNulls);
    }
  }
  return result;
}

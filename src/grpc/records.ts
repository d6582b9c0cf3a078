/** Converts decoded messages to the records of the other listeners: same names, same order, same nulls. */
import type { Definitions } from './definitions.ts';

type Message = Readonly<Record<string, unknown>>;

/** Converts a message to a record, in which absent fields are null; to a request, in which they stay absent. */
export function fieldsOf(
  definitions: Definitions,
  type: string,
  message: Message,
  isRecord: boolean,
): Record<string, unknown> {
  const result: Record<string, unknown> = {};
  for (const { name, isRepeated, message: inner } of definitions.fields(type)) {
    const value = message[name] ?? null;
    if (value === null) {
      if (isRecord) result[name] = null;
    } else if (inner === null) {
      result[name] = value;
    } else if (isRepeated) {
      result[name] = (value as Message[]).map((each) => fieldsOf(definitions, inner, each, isRecord));
    } else {
      result[name] = fieldsOf(definitions, inner, value as Message, isRecord);
    }
  }
  return result;
}

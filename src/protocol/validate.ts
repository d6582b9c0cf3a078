/** Validation of untrusted values. Errors never contain the value: it may be a prompt. */
import * as v from 'valibot';
import { SvcError } from './errors.ts';
import { given } from './given.ts';
import { DEFAULT_NAME } from './model/named.ts';

/**
 * Throws INVALID_REQUEST for the first invalid field, by the caller's name for it. `outer`: path of `value` in
 * the caller's request.
 */
export function parse<Schema extends v.GenericSchema>(
  schema: Schema,
  value: unknown,
  outer?: string,
): v.InferOutput<Schema> {
  const result = v.safeParse(schema, value, { abortEarly: true, abortPipeEarly: true });
  if (result.success) return result.output;
  const [issue] = result.issues;
  throw invalid(fieldName(issue, outer), complaint(issue));
}

/** `param`: undefined if the value as a whole is at fault. */
export function invalid(param: string | undefined, what: string): SvcError {
  return new SvcError('INVALID_REQUEST', `${param ?? 'the request'} ${what}`, given({ param }));
}

/** Copy of a JSON body without the fields that are null: to clients, null means absent. Throws INVALID_REQUEST. */
export function presentFields(body: unknown): Record<string, unknown> {
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    throw invalid(undefined, 'must be a JSON object');
  return Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null));
}

/**
 * As presentFields, for the APIs of other vendors: also without a `model` that is empty or `default`. Both mean the
 * default model: clients that let their user leave the name out send an empty one.
 */
export function clientFields(body: unknown): Record<string, unknown> {
  const { model, ...fields } = presentFields(body);
  return model === undefined || model === '' || model === DEFAULT_NAME ? fields : { model, ...fields };
}

/** A client's `stop`, one text or a list, as a list without empty texts, which ask for nothing. Others are unchanged. */
export function stopList(stop: unknown): unknown {
  const list = typeof stop === 'string' ? [stop] : stop;
  return Array.isArray(list) ? list.filter((each) => each !== '') : list;
}

/** Our name of a field, and the caller's. */
export interface FieldNames {
  readonly ours: string;
  readonly theirs: string;
}

/** Renames the field of an error by the first of the names that fits. */
export function renamedTo(error: unknown, names: readonly FieldNames[]): unknown {
  for (const { ours, theirs } of names) {
    const other = renamed(error, ours, theirs);
    if (other !== error) return other;
  }
  return error;
}

/** Renames the field `ours`, or a field in it, to the caller's name `theirs` in an error. */
export function renamed(error: unknown, ours: string, theirs: string): unknown {
  if (!(error instanceof SvcError) || error.param === undefined) return error;
  const { code, message, param, hint } = error;
  if (param !== ours && !param.startsWith(`${ours}.`)) return error;
  return new SvcError(code, message.startsWith(ours) ? theirs + message.slice(ours.length) : message, {
    param: theirs + param.slice(ours.length),
    ...given({ hint }),
    cause: error,
  });
}

/** `messages[0].content`. */
function fieldName(issue: v.BaseIssue<unknown>, outer = ''): string | undefined {
  let name = outer;
  for (const { key } of issue.path ?? []) {
    name += typeof key === 'number' ? `[${String(key)}]` : `${name === '' ? '' : '.'}${String(key)}`;
  }
  return name === '' ? undefined : name;
}

/** What is wrong, to follow the name of the field. */
export function complaint(issue: v.BaseIssue<unknown>): string {
  if (issue.received === 'undefined') return 'is required';
  const bound = String(issue.requirement);
  switch (issue.type) {
    case 'min_value':
      return `must be at least ${bound}`;
    case 'max_value':
      return `must be at most ${bound}`;
    case 'min_length':
      return `must have a length of at least ${bound}`;
    case 'max_length':
      return `must have a length of at most ${bound}`;
    case 'max_bytes':
      return `must have at most ${bound} bytes`;
    case 'max_entries':
      return `must have at most ${bound} entries`;
    case 'integer':
      return 'must be a whole number';
    case 'regex':
      return `must match ${bound}`;
    default:
      // From the schema alone: the expected type, or the allowed values.
      return `must be ${(issue.expected ?? 'valid').toLowerCase()}`;
  }
}

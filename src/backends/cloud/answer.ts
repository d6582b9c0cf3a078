/** What the readers of all APIs share: JSON that has to be the API's, and the errors where it is not. */
import * as v from 'valibot';
import { SvcError } from '../../protocol/errors.ts';

/** Throws PROVIDER_FAILED for what is no JSON, or JSON of another shape. None of it stands in the error. */
export function readEvent<Schema extends v.GenericSchema>(schema: Schema, data: string): v.InferOutput<Schema> {
  let value: unknown;
  try {
    value = JSON.parse(data);
  } catch {
    throw notTheApi('something that is no JSON');
  }
  return readBody(schema, value);
}

/** Throws PROVIDER_FAILED for another shape. */
export function readBody<Schema extends v.GenericSchema>(schema: Schema, body: unknown): v.InferOutput<Schema> {
  const result = v.safeParse(schema, body, { abortEarly: true, abortPipeEarly: true });
  if (result.success) return result.output;
  throw notTheApi('JSON of another shape');
}

/** `what`: never words that the model wrote. */
export function notTheApi(what: string): SvcError {
  return new SvcError('PROVIDER_FAILED', `the provider does not keep to its API: it sent ${what}`);
}

/** A stream that ended without a finish: never an answer. */
export function brokenOff(): SvcError {
  return new SvcError('PROVIDER_FAILED', 'the provider ended its answer before it was complete');
}

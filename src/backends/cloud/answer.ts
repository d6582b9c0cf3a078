/** Shared by all API readers: validates the API's JSON and creates the errors for invalid answers. */
import * as v from 'valibot';
import { SvcError } from '../../protocol/errors.ts';
import { parsedJson } from '../../protocol/foreign-text.ts';

/** Throws PROVIDER_FAILED for invalid JSON or fields of another type. The error contains none of the data. */
export function readEvent<Schema extends v.GenericSchema>(schema: Schema, data: string): v.InferOutput<Schema> {
  const value = parsedJson(data);
  if (value === undefined) throw notTheApi('invalid JSON');
  return readBody(schema, value);
}

/** Throws PROVIDER_FAILED if the body does not match the schema. */
export function readBody<Schema extends v.GenericSchema>(schema: Schema, body: unknown): v.InferOutput<Schema> {
  const result = v.safeParse(schema, body, { abortEarly: true, abortPipeEarly: true });
  if (result.success) return result.output;
  throw notTheApi('JSON with missing or invalid fields');
}

/** `what`: must not contain the model's text. */
export function notTheApi(what: string): SvcError {
  return new SvcError('PROVIDER_FAILED', `invalid response from the provider: it sent ${what}`);
}

/** Sorts results by their `index` among the `count` inputs. Throws PROVIDER_FAILED unless there is one for each. */
export function inOrder<Item extends { readonly index: number }>(items: readonly Item[], count: number): Item[] {
  checkCount(items, count);
  const sorted = [...items].sort((a, b) => a.index - b.index);
  if (sorted.some(({ index }, at) => index !== at)) throw notTheApi('results that do not belong to the inputs');
  return sorted;
}

/** Throws PROVIDER_FAILED unless there are `count` results. */
export function checkCount(items: readonly unknown[], count: number): void {
  if (items.length === count) return;
  throw notTheApi(`${String(items.length)} results for ${String(count)} inputs`);
}

/** For a stream that ended without a finish: it is not a valid answer. */
export function brokenOff(): SvcError {
  return new SvcError('PROVIDER_FAILED', 'the provider ended its answer before it was complete');
}

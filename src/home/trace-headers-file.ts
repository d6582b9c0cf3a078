/** The file that `traces.headers_file` names: headers for the collector of traces, which may hold its key. */
import * as v from 'valibot';
import { SvcError } from '../protocol/errors.ts';
import { readPrivate, type PrivateFile } from './private-file.ts';

/** Values that a header may have. */
export const HEADER_VALUE = /^[\x20-\x7e]{1,8192}$/;
/** Names that a header may have. */
export const HEADER_NAME = /^[a-z0-9-]{1,128}$/i;

const FILE: PrivateFile<Record<string, string>> = {
  schema: v.pipe(
    v.custom<object>((value) => typeof value === 'object' && value !== null && !Array.isArray(value)),
    v.record(v.pipe(v.string(), v.regex(HEADER_NAME)), v.pipe(v.string(), v.regex(HEADER_VALUE))),
  ),
  what: 'the file of headers for traces',
  content: 'trace-headers',
  hint: 'make it a JSON object of header names and values',
  forbidden: [0o077, 'can be read by other users'],
  isSecret: true,
};

/** Throws CONFIG_INVALID if there is no such file, or if it cannot be used. */
export function readTraceHeaders(path: string): Readonly<Record<string, string>> {
  const headers = readPrivate(path, FILE);
  if (headers === null) throw new SvcError('CONFIG_INVALID', `traces.headers_file: there is no file ${path}`);
  return headers;
}

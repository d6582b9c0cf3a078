/** Parses errors in responses of OpenAI-compatible servers, in all known formats. */
import * as v from 'valibot';
import { isKnownCode } from './provider-error.ts';
import type { WireError } from './wire.ts';

const text = v.fallback(v.nullish(v.string(), ''), '');
const code = v.fallback(v.nullish(v.union([v.string(), v.number()]), ''), '');
/** null: absent, or of another type. */
export const maybe = <Schema extends v.GenericSchema>(schema: Schema) => v.fallback(v.nullish(schema, null), null);

const ErrorSchema = v.object({
  error: maybe(v.union([v.string(), v.object({ message: text, code, type: text })])),
  /** vLLM's and Mistral's errors are flat. */
  object: text,
  message: text,
  code,
  type: text,
  /** FastAPI's: a text, or a list of validation errors. */
  detail: maybe(v.union([v.string(), v.array(v.object({ msg: text }))])),
  /** MiniMax's, in every response; 0 means no error. */
  base_resp: maybe(v.object({ status_code: v.number(), status_msg: text })),
});

/** MiniMax's numeric codes and their common names. */
const BASE_RESP: Readonly<Record<number, string>> = {
  1002: 'rate_limit_exceeded',
  1004: 'invalid_api_key',
  1008: 'insufficient_quota',
  1039: 'context_length_exceeded',
  2013: 'invalid_request_error',
  2049: 'invalid_api_key',
};

/** null: no error in the body. */
export function openAiError(body: unknown): WireError | null {
  // Gemini's OpenAI-compatible endpoint wraps the error in a list.
  const parsed = v.safeParse(ErrorSchema, Array.isArray(body) ? (body as unknown[])[0] : body);
  if (!parsed.success) return null;
  const { error, object, message, code: flatCode, type, detail, base_resp: base } = parsed.output;
  if (typeof error === 'string') return { message: error, code: nameOf(flatCode, type) };
  if (error !== null) return { message: error.message, code: nameOf(error.code, error.type) };
  if (object === 'error' || (message !== '' && nameOf(flatCode, type) !== null)) {
    return { message, code: nameOf(flatCode, type) };
  }
  if (base !== null && base.status_code !== 0) {
    return { message: base.status_msg, code: BASE_RESP[base.status_code] ?? String(base.status_code) };
  }
  if (detail === null) return null;
  return { message: typeof detail === 'string' ? detail : detail.map(({ msg }) => msg).join('; '), code: null };
}

/** The code is more specific than the type, unless it is an HTTP status. null: neither is present. */
function nameOf(code: string | number, type: string): string | null {
  if (typeof code === 'number' && isKnownCode(type)) return type;
  return String(code) || type || null;
}

/** An error in the body of an OpenAI-like server, in all the shapes that are met. */
import * as v from 'valibot';
import { isKnownCode } from './provider-error.ts';
import type { WireError } from './wire.ts';

const text = v.fallback(v.nullish(v.string(), ''), '');
const code = v.fallback(v.nullish(v.union([v.string(), v.number()]), ''), '');
/** null: not there, or something else. */
const maybe = <Schema extends v.GenericSchema>(schema: Schema) => v.fallback(v.nullish(schema, null), null);

const ErrorSchema = v.object({
  error: maybe(v.union([v.string(), v.object({ message: text, code, type: text })])),
  /** vLLM's and Mistral's errors are flat. */
  object: text,
  message: text,
  code,
  type: text,
  /** FastAPI's: a text, or a list of what is wrong where. */
  detail: maybe(v.union([v.string(), v.array(v.object({ msg: text }))])),
  /** MiniMax's, on every answer; 0 is none. */
  base_resp: maybe(v.object({ status_code: v.number(), status_msg: text })),
});

/** MiniMax's numbers, in the names that others use. */
const BASE_RESP: Readonly<Record<number, string>> = {
  1002: 'rate_limit_exceeded',
  1004: 'invalid_api_key',
  1008: 'insufficient_quota',
  1039: 'context_length_exceeded',
  2013: 'invalid_request_error',
  2049: 'invalid_api_key',
};

/** null: it holds no error. */
export function openAiError(body: unknown): WireError | null {
  // Gemini's endpoint for OpenAI's clients wraps it in a list.
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

/** The code says more than the type, unless it is the number of a status. null: neither is told. */
function nameOf(code: string | number, type: string): string | null {
  if (typeof code === 'number' && isKnownCode(type)) return type;
  return String(code) || type || null;
}

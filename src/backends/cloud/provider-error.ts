/**
 * Converts provider errors to ours. Codes decide, except for a prompt that is too long: some APIs have no code for it,
 * so the message decides, because routing acts on it. Messages are otherwise only quoted.
 */
import { retryAfterSeconds } from '../../net/retry-after.ts';
import { SvcError, type ErrorCode } from '../../protocol/errors.ts';
import { given } from '../../protocol/given.ts';
import type { WireError } from './wire.ts';

/** Retry advice in the response headers. */
export interface RetryAdvice {
  readonly retryAfterSeconds?: number;
  readonly retryable?: boolean;
}

const QUOTE_LENGTH = 1000;

interface Meaning {
  readonly code: ErrorCode;
  readonly what: string;
  readonly retryable?: boolean;
}

const TOO_LONG: Meaning = { code: 'CONTEXT_OVERFLOW', what: "the prompt does not fit in the model's context" };
const NO_MONEY: Meaning = {
  code: 'PROVIDER_FAILED',
  what: 'the quota or credit of the provider account is used up',
  retryable: false,
};
const NOT_ALLOWED: Meaning = { code: 'PROVIDER_AUTH', what: 'the provider rejected the API key' };
const TOO_MUCH: Meaning = { code: 'BUSY', what: 'rate limit: the provider accepts no more requests now' };
const NO_MODEL: Meaning = { code: 'MODEL_NOT_FOUND', what: 'the provider has no such model' };
const REFUSED: Meaning = { code: 'INVALID_REQUEST', what: 'the provider refuses the request' };
const TOO_LARGE: Meaning = { code: 'REQUEST_TOO_LARGE', what: 'the request is too large for the provider' };
const BROKEN: Meaning = { code: 'PROVIDER_FAILED', what: 'the provider has failed' };

/** Meanings of the providers' error codes and types. */
const CODES: Readonly<Record<string, Meaning>> = {
  context_length_exceeded: TOO_LONG,
  exceed_context_size_error: TOO_LONG,
  model_max_prompt_tokens_exceeded: TOO_LONG,
  string_above_max_length: TOO_LONG,
  insufficient_quota: NO_MONEY,
  billing_hard_limit_reached: NO_MONEY,
  billing_not_active: NO_MONEY,
  billing_error: NO_MONEY,
  invalid_api_key: NOT_ALLOWED,
  API_KEY_INVALID: NOT_ALLOWED,
  authentication_error: NOT_ALLOWED,
  permission_error: NOT_ALLOWED,
  UNAUTHENTICATED: NOT_ALLOWED,
  PERMISSION_DENIED: NOT_ALLOWED,
  rate_limit_exceeded: TOO_MUCH,
  rate_limit_error: TOO_MUCH,
  RESOURCE_EXHAUSTED: TOO_MUCH,
  overloaded_error: TOO_MUCH,
  UNAVAILABLE: TOO_MUCH,
  model_not_found: NO_MODEL,
  not_found_error: NO_MODEL,
  NOT_FOUND: NO_MODEL,
  request_too_large: TOO_LARGE,
  invalid_request_error: REFUSED,
  INVALID_ARGUMENT: REFUSED,
};

const STATUSES: Readonly<Record<number, Meaning>> = {
  400: REFUSED,
  401: NOT_ALLOWED,
  402: NO_MONEY,
  403: NOT_ALLOWED,
  404: NO_MODEL,
  413: TOO_LARGE,
  422: REFUSED,
  429: TOO_MUCH,
};

/** Messages of Anthropic, vLLM and SGLang, which use the code of any bad request for it. */
const SAYS_TOO_LONG =
  /prompt is too long|maximum context length|context length exceeded|exceeds the (?:context|maximum number of tokens)|longer than the model's context/i;

/** `status`: HTTP status of the response; null: the error came inside a stream. */
export function toSvcError(error: WireError | null, status: number | null, advice: RetryAdvice = {}): SvcError {
  const said = meaningOf(error, status ?? statusInside(error));
  const retryable = advice.retryable ?? said.retryable;
  return new SvcError(said.code, status === null ? said.what : `${said.what} (status ${String(status)})`, {
    ...(error === null || error.message === '' ? {} : { quote: tidy(error.message) }),
    ...given({ retryAfterSeconds: advice.retryAfterSeconds, retryable }),
  });
}

/** True if CODES contains `name`. */
export function isKnownCode(name: string): boolean {
  return Object.hasOwn(CODES, name);
}

function meaningOf(error: WireError | null, status: number | null): Meaning {
  const code = error?.code ?? '';
  const byCode = isKnownCode(code) ? CODES[code] : undefined;
  const byStatus = status === null ? undefined : STATUSES[status];
  // The API's own code is more specific than the status, except for REFUSED.
  const known = byCode === undefined || byCode === REFUSED ? (byStatus ?? byCode) : byCode;
  if ((known === REFUSED || known === TOO_LARGE) && saysTooLong(error?.message ?? '')) return TOO_LONG;
  if (known !== undefined) return known;
  const mayPass = status === null || status >= 500 || status === 408 || status === 409;
  return { ...BROKEN, retryable: mayPass };
}

function saysTooLong(message: string): boolean {
  if (SAYS_TOO_LONG.test(message)) return true;
  // Gemini: "The input token count (1048577) exceeds the maximum …".
  const lower = message.toLowerCase();
  const at = lower.indexOf('input token count ');
  return at !== -1 && lower.includes(' exceeds', at);
}

/** OpenRouter and vLLM use an HTTP status as the code. */
function statusInside(error: WireError | null): number | null {
  const code = error?.code ?? '';
  return /^[45]\d\d$/.test(code) ? Number(code) : null;
}

/** Reads `retry-after` in all its forms, and `x-should-retry`. */
export function retryAdvice(header: (name: string) => string | undefined, now: number): RetryAdvice {
  const should = header('x-should-retry');
  const seconds = retryAfterSeconds(header, now);
  return {
    ...(seconds === null ? {} : { retryAfterSeconds: seconds }),
    ...(should === 'true' || should === 'false' ? { retryable: should === 'true' } : {}),
  };
}

/** Makes a message safe for terminals: one line, no control characters, bounded length. */
function tidy(text: string): string {
  const line = text.replace(/[\p{Cc}\p{Cf}\s]+/gu, ' ').trim();
  return line.length <= QUOTE_LENGTH ? line : `${line.slice(0, QUOTE_LENGTH)}…`;
}

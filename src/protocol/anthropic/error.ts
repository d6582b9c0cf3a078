/** Converts errors to Anthropic's format. */
import type { Overflow, SvcError } from '../errors.ts';
import { given } from '../given.ts';

/** Status with which Anthropic's API answers while it cannot take requests. */
const OVERLOADED = 529;

/** Anthropic's `error.type` by HTTP status; its clients act on both. */
const TYPES: ReadonlyMap<number, string> = new Map([
  [401, 'authentication_error'],
  [403, 'permission_error'],
  [404, 'not_found_error'],
  [413, 'request_too_large'],
  [429, 'rate_limit_error'],
  [504, 'timeout_error'],
  [OVERLOADED, 'overloaded_error'],
]);

/** HTTP status of an error in this API, whose clients shorten a chat only after a 400. */
export function anthropicStatus(error: SvcError): number {
  if (error.code === 'CONTEXT_OVERFLOW') return 400;
  return error.code === 'NOT_READY' ? OVERLOADED : error.facts.http;
}

/** `id`: id of the request, also in its log line. */
export function toAnthropicError(error: SvcError, id: string): object {
  const status = anthropicStatus(error);
  return {
    type: 'error',
    error: {
      type: TYPES.get(status) ?? (status < 500 ? 'invalid_request_error' : 'api_error'),
      message: messageOf(error),
      // Anthropic's client shows `error_code`; `param` is our extension.
      details: { error_code: error.code.toLowerCase(), ...given({ param: error.param }) },
    },
    request_id: id,
  };
}

/**
 * Clients show only this text: it names the field. Coding agents shorten their conversation when they read "prompt is
 * too long", by as much as the two numbers differ.
 */
function messageOf({ code, told, hint, param, overflow }: SvcError): string {
  const named = param === undefined || told.startsWith(param) ? told : `${param}: ${told}`;
  const text = overflow === undefined ? named : sizesOf(overflow);
  const whole = hint === undefined ? text : `${text}; ${hint}`;
  return code === 'CONTEXT_OVERFLOW' ? `prompt is too long: ${whole}` : whole;
}

/** One token of the context is for the answer. */
function sizesOf({ prompt_tokens, is_minimum, context_length }: Overflow): string {
  return `${is_minimum ? 'at least ' : ''}${String(prompt_tokens)} tokens > ${String(context_length - 1)} maximum`;
}

/** Converts errors to OpenAI's format. Its clients ignore our `hint` and `id`. */
import type { ErrorCode, SvcError } from '../errors.ts';
import { given } from '../given.ts';

/** Codes for which OpenAI has its own name, on which clients act. */
const CODES: Partial<Record<ErrorCode, string>> = {
  CONTEXT_OVERFLOW: 'context_length_exceeded',
  UNAUTHORIZED: 'invalid_api_key',
  BUSY: 'rate_limit_exceeded',
};

/** OpenAI's own name for the code of an error; undefined: it has none. */
export function openAiCode({ code }: SvcError): string | undefined {
  return CODES[code];
}

/** HTTP status of an error in this API, whose clients shorten a chat only after a 400. */
export function openAiStatus(error: SvcError): number {
  return error.code === 'CONTEXT_OVERFLOW' ? 400 : error.facts.http;
}

/**
 * Message of an error. That of a prompt that is too long has the words by which LangChain.js ("exceeds the context
 * window") and LiteLLM ("this model's maximum context length is") know it.
 */
export function openAiMessage({ code, told, overflow }: SvcError): string {
  if (code !== 'CONTEXT_OVERFLOW') return told;
  if (overflow === undefined) return `the prompt exceeds the context window: ${told}`;
  const { prompt_tokens, is_minimum, context_length } = overflow;
  const length = `this model's maximum context length is ${String(context_length)} tokens`;
  const size = `${is_minimum ? 'at least ' : ''}${String(prompt_tokens)}`;
  return `the prompt exceeds the context window: ${length}, and the prompt has ${size}, plus one for the answer`;
}

export function toOpenAiError(error: SvcError, id: string): object {
  return {
    error: {
      message: openAiMessage(error),
      type: error.facts.openai,
      param: error.param ?? null,
      code: openAiCode(error) ?? error.code.toLowerCase(),
      ...given({ hint: error.hint }),
      // Id of the request, also in its log line.
      id,
    },
  };
}

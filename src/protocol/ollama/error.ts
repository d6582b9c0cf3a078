/** Errors in Ollama's shape, and with its names of our fields. */
import { SvcError } from '../errors.ts';
import { given } from '../given.ts';

/** Ollama's clients show only this text. */
export function toOllamaError(error: SvcError): { readonly error: string } {
  return { error: error.hint === undefined ? error.told : `${error.told}; ${error.hint}` };
}

/** Our fields, or beginnings of them, and what Ollama calls them. Pictures stand before the text of a message. */
const NAMES: readonly (readonly [ours: RegExp, theirs: string])[] = [
  [/^messages\[(\d+)\]\.content\[(\d+)\]/, 'messages[$1].images[$2]'],
  [/^tools\[(\d+)\]\.(?=name|parameters|strict)/, 'tools[$1].function.'],
  [/^format\.(?:schema|grammar)/, 'format'],
  [/^reasoning_(?:effort|budget_tokens)/, 'think'],
  [/^max_tokens/, 'options.num_predict'],
  [/^keep_alive_seconds/, 'keep_alive'],
  [/^sampling\./, 'options.'],
  [/^stop/, 'options.stop'],
];

/**
 * Engine errors after which Ollama's clients retry without the field, if the error has Ollama's wording. Neither a code
 * nor a field tells them from others. A test compares them with the engine's source.
 */
const MISSING: readonly (readonly [reason: RegExp, what: string])[] = [
  [/has no form for tool calls$/, 'tools'],
  [/has no reasoning$/, 'thinking'],
];

/**
 * Begins the errors that clients recognise with Ollama's wording. All other messages name the field at fault, by the
 * client's name: Ollama's errors have no field for it. `model`: as the client spelled it.
 */
export function inOllamasWords(error: unknown, model: string): unknown {
  if (!(error instanceof SvcError)) return error;
  const { code, message, param } = error;
  if (code === 'MODEL_NOT_FOUND') return reworded(error, `model '${model}' not found: ${message}`, 'model');
  if (param === undefined || param === 'model') return error;
  const [ours = '', theirs = ''] = NAMES.find(([name]) => name.test(param)) ?? [];
  const named = param.replace(ours, theirs);
  const [, what] = MISSING.find(([reason]) => reason.test(message)) ?? [];
  if (what !== undefined)
    return reworded(error, `${JSON.stringify(model)} does not support ${what}: ${message}`, named);
  const rest = message.startsWith(param) ? message.slice(param.length) : `: ${message}`;
  return reworded(error, named + rest, named);
}

/**
 * Converts the input index in an error from its batch to the whole request. `start`: index of the batch's first input.
 */
export function inWholeInput(error: unknown, start: number): unknown {
  if (start === 0 || !(error instanceof SvcError)) return error;
  const counted = (text: string): string =>
    text.replace(/^input\[(\d+)\]/, (_, index) => `input[${String(start + Number(index))}]`);
  return reworded(error, counted(error.message), error.param === undefined ? undefined : counted(error.param));
}

function reworded(cause: SvcError, message: string, param: string | undefined): SvcError {
  const { code, hint, quote } = cause;
  return new SvcError(code, message, { ...given({ param, hint, quote }), cause });
}

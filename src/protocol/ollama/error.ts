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

/** Names the field at fault as the client does, in the message: Ollama's errors have no other place for it. */
export function inOllamasWords(error: unknown): unknown {
  if (!(error instanceof SvcError) || error.param === undefined || error.param === 'model') return error;
  const { code, message, param, hint } = error;
  const [ours = '', theirs = ''] = NAMES.find(([name]) => name.test(param)) ?? [];
  const named = param.replace(ours, theirs);
  const rest = message.startsWith(param) ? message.slice(param.length) : `: ${message}`;
  return new SvcError(code, named + rest, { param: named, ...given({ hint }), cause: error });
}

/**
 * `context` of `/api/generate`: the conversation so far, which a client sends back to go on with it. Ollama's is a list
 * of the model's tokens. Ours is the messages as JSON, a number for each code point: it needs no engine, loses nothing,
 * and every model and provider can go on with it, in its own template.
 */
import * as v from 'valibot';
import type { Message } from '../generate.ts';
import { parsedJson } from '../foreign-text.ts';
import { LIMITS } from '../limits.ts';
import { invalid, parse } from '../validate.ts';

const ContextSchema = v.pipe(
  v.array(v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(0x10_ffff))),
  v.maxLength(LIMITS.ollamaContext),
);

const TurnsSchema = v.pipe(
  v.array(v.object({ role: v.picklist(['system', 'user', 'assistant']), content: v.string() })),
  v.maxLength(LIMITS.messages),
);

/** The messages in a context. Throws INVALID_REQUEST with `param` unless it is one of toContext. */
export function fromContext(value: unknown): Message[] {
  const text = parse(ContextSchema, value, 'context').reduce((whole, each) => whole + String.fromCodePoint(each), '');
  const turns = v.safeParse(TurnsSchema, text === '' ? [] : parsedJson(text));
  if (!turns.success) throw invalid('context', 'must be the context of an earlier answer of svc');
  return turns.output;
}

/**
 * The context of an answer to these messages, without pictures, sounds and reasoning. undefined: it would be longer than
 * LIMITS.ollamaContext.
 */
export function toContext(messages: readonly Message[], answer: string): number[] | undefined {
  const turns = messages.map(({ role, content }) => ({ role, content: textOf(content) }));
  const text = JSON.stringify([...turns, { role: 'assistant', content: answer }]);
  // Code points are at most as many as the units, and at least half as many.
  if (text.length > 2 * LIMITS.ollamaContext) return undefined;
  const numbers = Array.from(text, (each) => each.codePointAt(0) ?? 0);
  return numbers.length > LIMITS.ollamaContext ? undefined : numbers;
}

function textOf(content: Message['content']): string {
  if (typeof content === 'string') return content;
  return content.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n');
}

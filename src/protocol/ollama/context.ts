/**
 * `context` of `/api/generate`: the conversation so far, which a client sends back to continue it. Ollama's is a list
 * of the model's tokens. Ours is the messages as JSON, compressed, two bytes in each integer. Tokens would continue
 * without the chat template, so a model's reasoning would come as text, and providers and policies have no tokens.
 * These integers give the same answer as the messages in `/api/chat`, from any model.
 */
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import * as v from 'valibot';
import type { Message } from '../generate.ts';
import { orElse, parsedJson } from '../foreign-text.ts';
import { LIMITS } from '../limits.ts';
import { invalid, parse } from '../validate.ts';

const ContextSchema = v.pipe(
  v.array(v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(0xffff))),
  v.maxLength(LIMITS.ollamaContext),
);

/** Bytes of the JSON. A context of a client must not become more either. */
const MOST_BYTES = 1024 * 1024;

const TurnsSchema = v.pipe(
  v.array(v.object({ role: v.picklist(['system', 'user', 'assistant']), content: v.string() })),
  v.maxLength(LIMITS.messages),
);

/** The messages in a context. Throws INVALID_REQUEST with `param` unless it is one of toContext. */
export function fromContext(value: unknown): Message[] {
  const numbers = parse(ContextSchema, value, 'context');
  const turns = v.safeParse(TurnsSchema, numbers.length === 0 ? [] : parsedJson(unpacked(numbers)));
  if (!turns.success) throw invalid('context', 'must be the context of an earlier answer of svc');
  return turns.output;
}

/**
 * The context of an answer to these messages, without pictures, sounds and reasoning. undefined: it would have more
 * than MOST_BYTES, or LIMITS.ollamaContext integers.
 */
export function toContext(messages: readonly Message[], answer: string): number[] | undefined {
  const turns = messages.map(({ role, content }) => ({ role, content: textOf(content) }));
  const json = Buffer.from(JSON.stringify([...turns, { role: 'assistant', content: answer }]));
  if (json.length > MOST_BYTES) return undefined;
  const numbers = packed(deflateRawSync(json));
  return numbers.length > LIMITS.ollamaContext ? undefined : numbers;
}

function packed(bytes: Buffer): number[] {
  const even = Buffer.concat([bytes, Buffer.alloc(bytes.length % 2)]);
  return Array.from({ length: even.length / 2 }, (_, at) => even.readUInt16BE(2 * at));
}

/** Empty: it was not made by `packed`. The compressed data has an end of its own, so a byte after it does no harm. */
function unpacked(numbers: readonly number[]): string {
  const bytes = Buffer.alloc(2 * numbers.length);
  for (const [at, number] of numbers.entries()) bytes.writeUInt16BE(number, 2 * at);
  return orElse(() => inflateRawSync(bytes, { maxOutputLength: MOST_BYTES }).toString(), '');
}

function textOf(content: Message['content']): string {
  if (typeof content === 'string') return content;
  return content.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n');
}

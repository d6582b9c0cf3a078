/**
 * `POST /api/generate`: converts Ollama's request to ours: a chat of one turn more than its `context` has, with `raw` a
 * prompt without a template, with `suffix` a gap in a text.
 */
import * as v from 'valibot';
import type { GenerateRequest, Message, RawPrompt } from '../generate.ts';
import { invalid, parse } from '../validate.ts';
import { fromContext } from './context.ts';
import { contentOf, ImagesSchema } from './messages.ts';
import { COMMON, fieldsOf, toCommon, type OllamaCall } from './request.ts';

export const OllamaGenerateSchema = v.object({
  ...COMMON,
  prompt: v.exactOptional(v.string(), ''),
  system: v.exactOptional(v.string(), ''),
  images: v.exactOptional(ImagesSchema, []),
  raw: v.exactOptional(v.boolean(), false),
  suffix: v.exactOptional(v.string(), ''),
  /** Read by fromContext. */
  context: v.exactOptional(v.unknown(), []),
});
type Call = v.InferOutput<typeof OllamaGenerateSchema>;

/** Fields that are refused unless they have a value that asks for nothing, and why. */
export const REFUSED_FIELDS: Readonly<
  Record<string, readonly [asksNothing: (value: unknown) => boolean, why: string]>
> = {
  template: [isEmpty, 'svc uses the chat template of the model file'],
  width: [(value) => value === 0, 'svc makes no pictures'],
  height: [(value) => value === 0, 'svc makes no pictures'],
  steps: [(value) => value === 0, 'svc makes no pictures'],
};

/** Throws INVALID_REQUEST with `param`. */
export function parseOllamaGenerate(body: unknown): OllamaCall {
  const fields = fieldsOf(body);
  for (const [name, [asksNothing, why]] of Object.entries(REFUSED_FIELDS)) {
    if (fields[name] !== undefined && !asksNothing(fields[name])) throw invalid(name, `is not supported: ${why}`);
  }
  const call = parse(OllamaGenerateSchema, fields);
  const common = toCommon(call);
  const raw = rawOf(call, common);
  const messages = raw === null ? messagesOf(call) : null;
  const { prompt, suffix, images } = call;
  const isEmptyCall = prompt === '' && suffix === '' && images.length === 0;
  return {
    model: call.model,
    request: isEmptyCall ? null : messages === null ? rawRequest(common, raw) : { ...common, messages },
    turns: messages,
    keepAliveSeconds: call.keep_alive,
    stream: call.stream,
  };
}

/** null: a chat. Throws INVALID_REQUEST for fields that only a chat can have. */
function rawOf(call: Call, { reasoning_effort }: Omit<GenerateRequest, 'messages'>): RawPrompt | null {
  const { raw, prompt, suffix, system, images, context } = call;
  if (!raw && suffix === '') return null;
  const mode = raw ? 'raw' : 'suffix';
  const chatFields = {
    suffix: raw && suffix !== '',
    system: system !== '',
    images: images.length > 0,
    context: !Array.isArray(context) || context.length > 0,
    think: reasoning_effort !== undefined && reasoning_effort !== 'none',
  };
  const [wrong] = Object.entries(chatFields).find(([, isGiven]) => isGiven) ?? [];
  if (wrong !== undefined) throw invalid(wrong, `cannot be combined with ${mode}: no chat template is used`);
  return raw ? { text: prompt } : { text: '', infill: { prefix: prompt, suffix, extra: [] } };
}

function rawRequest(common: Omit<GenerateRequest, 'messages'>, raw: RawPrompt | null): GenerateRequest {
  const { reasoning_effort: _, ...rest } = common;
  return { ...rest, messages: [], ...(raw === null ? {} : { raw }) };
}

/** `system` takes the place of the one in the context. */
function messagesOf({ prompt, system, images, context }: Call): Message[] {
  const earlier = fromContext(context);
  const isReplaced = system !== '' && earlier[0]?.role === 'system';
  return [
    ...(system === '' ? [] : [{ role: 'system' as const, content: system }]),
    ...(isReplaced ? earlier.slice(1) : earlier),
    { role: 'user', content: contentOf(prompt, images, '') },
  ];
}

function isEmpty(value: unknown): boolean {
  return value === '';
}

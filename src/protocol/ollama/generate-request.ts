/** `POST /api/generate`: converts Ollama's request to ours, a chat of one turn. */
import * as v from 'valibot';
import type { Message } from '../generate.ts';
import { invalid, parse } from '../validate.ts';
import { contentOf, ImagesSchema } from './messages.ts';
import { COMMON, fieldsOf, toCommon, type OllamaCall } from './request.ts';

export const OllamaGenerateSchema = v.object({
  ...COMMON,
  prompt: v.exactOptional(v.string(), ''),
  system: v.exactOptional(v.string(), ''),
  images: v.exactOptional(ImagesSchema, []),
});

/** Fields that are refused unless they have a value that asks for nothing, and why. */
export const REFUSED_FIELDS: Readonly<
  Record<string, readonly [asksNothing: (value: unknown) => boolean, why: string]>
> = {
  template: [isEmpty, 'svc uses the chat template of the model file'],
  raw: [(value) => value === false, 'a prompt is always put into the chat template of the model'],
  suffix: [isEmpty, 'svc does not fill in the middle of a text'],
  context: [
    (value) => Array.isArray(value) && value.length === 0,
    'send the earlier turns as messages to /api/chat; their computed state is reused',
  ],
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
  const { prompt, system, images } = call;
  const messages: Message[] = [
    ...(system === '' ? [] : [{ role: 'system' as const, content: system }]),
    { role: 'user', content: contentOf(prompt, images, '') },
  ];
  return {
    model: call.model,
    request: prompt === '' && images.length === 0 ? null : { ...common, messages },
    keepAliveSeconds: call.keep_alive,
    stream: call.stream,
  };
}

function isEmpty(value: unknown): boolean {
  return value === '';
}

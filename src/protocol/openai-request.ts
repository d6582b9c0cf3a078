/**
 * `POST /v1/chat/completions`, OpenAI's shape, made into our request.
 *
 * Fields that we do not know are ignored, as servers of this API do. Fields that would change the
 * answer and that we cannot honour are refused by name: an answer never silently ignores a wish.
 * null is the same as absent everywhere; -1 means "no bound" for the token limits and "random" for
 * the seed, as llama-server and LM Studio have it.
 */
import * as v from 'valibot';
import { GenerateRequestSchema, LIMITS, SamplingSchema, type GenerateRequest, type Message } from './generate.ts';
import { invalid, parse } from './validate.ts';

export interface ChatCompletionCall {
  readonly request: GenerateRequest;
  readonly stream: boolean;
  /** `stream_options.include_usage`. */
  readonly includeUsage: boolean;
}

const { model, max_tokens, stop } = GenerateRequestSchema.entries;
const bias = v.pipe(v.number(), v.minValue(-100), v.maxValue(100));

const ChatCompletionSchema = v.object({
  model,
  messages: v.pipe(
    v.array(
      v.looseObject({
        role: v.picklist(['system', 'developer', 'user', 'assistant', 'tool']),
        content: v.exactOptional(v.unknown()),
      }),
    ),
    v.minLength(1),
    v.maxLength(LIMITS.messages),
  ),
  max_tokens,
  max_completion_tokens: max_tokens,
  /** Token ids as strings, since JSON has no other keys. */
  logit_bias: v.exactOptional(
    v.pipe(v.record(v.pipe(v.string(), v.regex(/^\d{1,10}$/)), bias), v.maxEntries(LIMITS.logitBias)),
  ),
  stop,
  stream: v.exactOptional(v.boolean(), false),
  stream_options: v.exactOptional(v.looseObject({ include_usage: v.exactOptional(v.boolean(), false) })),
});

/** Throws INVALID_REQUEST with `param`. */
export function parseChatCompletion(body: unknown): ChatCompletionCall {
  const fields = withoutAbsent(body);
  for (const [name, [asksNothing, what]] of UNSUPPORTED) {
    if (fields[name] !== undefined && !asksNothing(fields[name])) throw invalid(name, what);
  }
  if (typeof fields['stop'] === 'string') fields['stop'] = [fields['stop']];
  if (Array.isArray(fields['logit_bias'])) throw invalid('logit_bias', 'must be an object from token id to bias');

  const call = parse(ChatCompletionSchema, fields);
  const { logit_bias: _, ...plain } = fields;
  const biases = call.logit_bias === undefined ? undefined : Object.entries(call.logit_bias);
  const maxTokens = call.max_completion_tokens ?? call.max_tokens;
  return {
    request: {
      ...(call.model === undefined || call.model === 'default' ? {} : { model: call.model }),
      messages: call.messages.map(toMessage),
      ...(maxTokens === undefined ? {} : { max_tokens: maxTokens }),
      sampling: {
        ...parse(SamplingSchema, plain),
        ...(biases === undefined ? {} : { logit_bias: biases.map(([id, value]) => [Number(id), value]) }),
      },
      stop: call.stop,
    },
    stream: call.stream,
    includeUsage: call.stream_options?.include_usage ?? false,
  };
}

/** A copy without the fields that say nothing. */
function withoutAbsent(body: unknown): Record<string, unknown> {
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    throw invalid(undefined, 'must be a JSON object');
  const says = ([name, value]: [string, unknown]): boolean =>
    value !== null && !(value === -1 && (name === 'seed' || name === 'max_tokens' || name === 'max_completion_tokens'));
  return Object.fromEntries(Object.entries(body).filter(says));
}

type Unsupported = readonly [asksNothing: (value: unknown) => boolean, what: string];

const never = (): boolean => false;
const isEmptyList = (value: unknown): boolean => Array.isArray(value) && value.length === 0;
const isNoChoice = (value: unknown): boolean => value === 'none' || value === 'auto';
const isTextFormat = (value: unknown): boolean =>
  typeof value === 'object' && (value as { type?: unknown }).type === 'text';
const isTextOnly = (value: unknown): boolean => Array.isArray(value) && value.every((item) => item === 'text');

const UNSUPPORTED: ReadonlyMap<string, Unsupported> = new Map<string, Unsupported>([
  ['n', [(value) => value === 1, 'must be 1: svc makes one choice for each request']],
  ['tools', [isEmptyList, 'are not supported']],
  ['tool_choice', [isNoChoice, 'is not supported']],
  ['functions', [isEmptyList, 'are not supported']],
  ['function_call', [isNoChoice, 'is not supported']],
  ['response_format', [isTextFormat, 'is not supported but for {"type": "text"}']],
  ['json_schema', [never, 'is not supported']],
  ['grammar', [(value) => value === '', 'is not supported']],
  ['logprobs', [(value) => value === false, 'are not supported']],
  ['top_logprobs', [(value) => value === 0, 'are not supported']],
  ['modalities', [isTextOnly, 'are not supported but for text']],
  ['audio', [never, 'is not supported']],
  ['web_search_options', [never, 'are not supported']],
]);

type WireMessage = v.InferOutput<typeof ChatCompletionSchema>['messages'][number];

function toMessage(message: WireMessage, index: number): Message {
  const param = `messages[${String(index)}]`;
  const calls = message['tool_calls'];
  if (calls !== undefined && calls !== null && !isEmptyList(calls))
    throw invalid(`${param}.tool_calls`, 'are not supported');
  const role = message.role === 'developer' ? 'system' : message.role;
  if (message.content === null && role === 'assistant') return { role, content: '' };
  return { role, content: toText(message.content, `${param}.content`) };
}

/** Text parts are joined as llama.cpp joins them: by a line break, none before the first that is not empty. */
function toText(content: unknown, param: string): string {
  if (typeof content === 'string') return content;
  if (content === undefined) throw invalid(param, 'is required');
  if (!Array.isArray(content)) throw invalid(param, 'must be a string or a list of text parts');
  let text = '';
  for (const [index, part] of (content as unknown[]).entries()) {
    const { type, text: partText } = (part ?? {}) as { type?: unknown; text?: unknown };
    const partParam = `${param}[${String(index)}]`;
    if (type !== 'text')
      throw invalid(`${partParam}.type`, 'must be "text": images, audio and files are not supported');
    if (typeof partText !== 'string') throw invalid(`${partParam}.text`, 'must be string');
    text += text === '' ? partText : `\n${partText}`;
  }
  return text;
}

/**
 * `POST /v1/chat/completions`: converts OpenAI's format to our request.
 *
 * Unknown fields are ignored, as other servers of this API do. Fields that would change the answer but are not
 * supported are refused by name, never silently ignored. Our extensions: `route` and `fallback` (docs/routing.md),
 * `priority`, `truncate`, `context_length`, and `keep_alive` as in Ollama. null means absent. As in llama-server
 * and LM Studio, -1 means "no limit" for the token limits and "random" for the seed.
 */
import * as v from 'valibot';
import { GenerateRequestSchema, LIMITS, REASONING_EFFORTS, type GenerateRequest } from '../generate.ts';
import { given } from '../given.ts';
import { TOOL_FIELDS, toolsOf } from './chat-tools.ts';
import { formatOf } from './response-format.ts';
import { toMessage } from './messages.ts';
import { readFields, SHARED_FIELDS, sharedRequest, toMaxTokens, type Unsupported } from './shared-fields.ts';
import { invalid, parse, type FieldNames } from '../validate.ts';

export interface ChatCompletionCall {
  readonly request: GenerateRequest;
  /** `n`: number of answers to the prompt. */
  readonly choices: number;
  /** The prompt is only computed, so that the next request finds it in the prefix cache. */
  readonly isWarmUp: boolean;
  readonly stream: boolean;
  /** `stream_options.include_usage`. */
  readonly includeUsage: boolean;
  /** Types of the tools that were passed over. */
  readonly ignoredTools: readonly string[];
  /** Caller's names of our fields, for errors. */
  readonly names: readonly FieldNames[];
}

const { max_tokens, logprobs } = GenerateRequestSchema.entries;
/** The fields that have our name and meaning, besides those of SHARED_FIELDS. */
const SameSchema = v.pick(GenerateRequestSchema, ['reasoning_budget_tokens', 'chat_template_kwargs']);

/** Without the fields that messages.ts, chat-tools.ts and response-format.ts read. */
export const ChatCompletionSchema = v.object({
  ...SHARED_FIELDS,
  ...SameSchema.entries,
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
  ...TOOL_FIELDS,
  /** `max` is `xhigh` here: no limit. */
  reasoning_effort: v.exactOptional(v.picklist([...REASONING_EFFORTS, 'max'])),
  logprobs: v.exactOptional(v.boolean(), false),
  top_logprobs: logprobs,
});

/** Throws INVALID_REQUEST with `param`. */
export function parseChatCompletion(body: unknown): ChatCompletionCall {
  const fields = readFields(body, UNSUPPORTED);
  const call = parse(ChatCompletionSchema, fields);
  const format = formatOf(fields);
  const tools = toolsOf(call);
  const limit = call.n_predict ?? call.max_completion_tokens ?? call.max_tokens;
  if ((call.top_logprobs ?? 0) > 0 && !call.logprobs) throw invalid('top_logprobs', 'requires logprobs: true');
  return {
    request: {
      ...sharedRequest(call, fields),
      ...parse(SameSchema, call),
      messages: call.messages.map(toMessage),
      ...tools.fields,
      ...given({
        max_tokens: toMaxTokens(limit),
        format: format?.format,
        reasoning_effort: call.reasoning_effort === 'max' ? ('xhigh' as const) : call.reasoning_effort,
        logprobs: call.logprobs ? (call.top_logprobs ?? 0) : undefined,
      }),
    },
    choices: call.n,
    isWarmUp: limit === 0,
    stream: call.stream,
    includeUsage: call.stream_options?.include_usage ?? false,
    ignoredTools: tools.ignored,
    names: [
      ...tools.places.map((theirs, index) => ({ ours: `tools[${String(index)}]`, theirs })),
      ...(format === null ? [] : [format.names]),
    ],
  };
}

const never = (): boolean => false;
const isEmptyList = (value: unknown): boolean => Array.isArray(value) && value.length === 0;
const isNoChoice = (value: unknown): boolean => value === 'none' || value === 'auto';
const isTextOnly = (value: unknown): boolean => Array.isArray(value) && value.every((item) => item === 'text');

const UNSUPPORTED: ReadonlyMap<string, Unsupported> = new Map<string, Unsupported>([
  ['functions', [isEmptyList, 'are not supported: use tools']],
  ['function_call', [isNoChoice, 'is not supported: use tool_choice']],
  ['modalities', [isTextOnly, 'must be ["text"]: no other modality is supported']],
  ['audio', [never, 'is not supported']],
  ['web_search_options', [never, 'are not supported']],
  ['moderation', [never, 'is not supported']],
  ['thinking_budget_tokens', [(value) => value === -1, 'is not supported: use reasoning_budget_tokens']],
]);

/**
 * `POST /v1/chat/completions`: converts OpenAI's format to our request.
 *
 * Unknown fields are ignored, as other servers of this API do. Fields that would change the answer but are not
 * supported are refused by name, never silently ignored. Our extensions: `route` and `fallback` (docs/routing.md),
 * `priority`, `truncate`, `context_length`, and `keep_alive` as in Ollama. null means absent. As in llama-server
 * and LM Studio, -1 means "no limit" for the token limits and "random" for the seed.
 */
import * as v from 'valibot';
import {
  asksForCall,
  GenerateRequestSchema,
  LIMITS,
  LoraSchema,
  SamplingSchema,
  ToolSchema,
  type GenerateRequest,
} from '../generate.ts';
import { given } from '../given.ts';
import { KeepAliveSchema } from '../keep-alive.ts';
import { formatOf, type OpenAiFormat } from './response-format.ts';
import { toMessage } from './messages.ts';
import { invalid, parse } from '../validate.ts';

export interface ChatCompletionCall {
  readonly request: GenerateRequest;
  /** `n`: number of answers to the prompt. */
  readonly choices: number;
  readonly stream: boolean;
  /** `stream_options.include_usage`. */
  readonly includeUsage: boolean;
  /** Caller's name of the `format` field, for errors; null: no format. */
  readonly formatNames: OpenAiFormat['names'] | null;
}

const { model, max_tokens, parallel_tool_calls, logprobs } = GenerateRequestSchema.entries;
/**
 * The fields that have our name and meaning. `store`: OpenAI stores the answer if true; here false keeps the prompt
 * out of the prefix cache's disk tier.
 */
const SameSchema = v.pick(GenerateRequestSchema, [
  'truncate',
  'stop',
  'repetition_guard',
  'reasoning_effort',
  'reasoning_budget_tokens',
  'chat_template_kwargs',
  'route',
  'fallback',
  'priority',
  'context_length',
  'store',
]);
const tool = <Entries extends v.ObjectEntries>(entries: Entries) =>
  v.object({ type: v.literal('function'), function: v.object(entries) });
const bias = v.pipe(v.number(), v.minValue(-100), v.maxValue(100));

/** Without the fields that messages.ts and response-format.ts read. */
export const ChatCompletionSchema = v.object({
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
  /** Keys are token ids as strings, since JSON keys are strings. */
  logit_bias: v.exactOptional(
    v.pipe(v.record(v.pipe(v.string(), v.regex(/^\d{1,10}$/)), bias), v.maxEntries(LIMITS.logitBias)),
  ),
  tools: v.exactOptional(v.pipe(v.array(tool(ToolSchema.entries)), v.maxLength(LIMITS.tools))),
  tool_choice: v.exactOptional(
    v.union([v.picklist(['auto', 'none', 'required']), tool({ name: ToolSchema.entries.name })]),
  ),
  parallel_tool_calls,
  logprobs: v.exactOptional(v.boolean(), false),
  top_logprobs: logprobs,
  ...SameSchema.entries,
  /** A number is the place of an adapter in the model's list, as in llama-server. */
  lora: v.exactOptional(
    v.pipe(
      v.array(
        v.object({
          id: v.union([LoraSchema.entries.id, v.pipe(v.number(), v.integer(), v.minValue(0))]),
          scale: LoraSchema.entries.scale,
        }),
      ),
      v.maxLength(LIMITS.lora),
    ),
  ),
  n: v.exactOptional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(LIMITS.choices)), 1),
  keep_alive: KeepAliveSchema,
  stream: v.exactOptional(v.boolean(), false),
  stream_options: v.exactOptional(v.looseObject({ include_usage: v.exactOptional(v.boolean(), false) })),
});

type Call = v.InferOutput<typeof ChatCompletionSchema>;

/** Throws INVALID_REQUEST with `param`. */
export function parseChatCompletion(body: unknown): ChatCompletionCall {
  const fields = withoutAbsent(body);
  for (const [name, [asksNothing, what]] of UNSUPPORTED) {
    if (fields[name] !== undefined && !asksNothing(fields[name])) throw invalid(name, what);
  }
  if (typeof fields['stop'] === 'string') fields['stop'] = [fields['stop']];
  if (Array.isArray(fields['logit_bias']))
    throw invalid('logit_bias', 'must be an object that maps token ids to biases');

  const call = parse(ChatCompletionSchema, fields);
  const { logit_bias: _, ...plain } = fields;
  const biases = call.logit_bias === undefined ? undefined : Object.entries(call.logit_bias);
  const format = formatOf(fields);
  if ((call.top_logprobs ?? 0) > 0 && !call.logprobs) throw invalid('top_logprobs', 'requires logprobs: true');
  return {
    request: {
      ...parse(SameSchema, call),
      messages: call.messages.map(toMessage),
      sampling: {
        ...parse(SamplingSchema, plain),
        ...(biases === undefined ? {} : { logit_bias: biases.map(([id, value]) => [Number(id), value]) }),
      },
      ...toolsOf(call),
      ...given({
        model: call.model === 'default' ? undefined : call.model,
        max_tokens: call.max_completion_tokens ?? call.max_tokens,
        lora: call.lora?.map(({ id, scale }) => ({ id: String(id), scale })),
        format: format?.format,
        logprobs: call.logprobs ? (call.top_logprobs ?? 0) : undefined,
        keep_alive_seconds: call.keep_alive,
      }),
    },
    choices: call.n,
    stream: call.stream,
    includeUsage: call.stream_options?.include_usage ?? false,
    formatNames: format?.names ?? null,
  };
}

function toolsOf({ tools = [], tool_choice: choice, parallel_tool_calls }: Call): Partial<GenerateRequest> {
  if (tools.length === 0) {
    if (asksForCall(choice)) throw invalid('tool_choice', 'requires tools');
    return {};
  }
  return {
    tools: tools.map((each) => each.function),
    ...given({ tool_choice: typeof choice === 'object' ? choice.function : choice, parallel_tool_calls }),
  };
}

/** Copy of the body without the fields whose value means "absent". */
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
const isTextOnly = (value: unknown): boolean => Array.isArray(value) && value.every((item) => item === 'text');

const UNSUPPORTED: ReadonlyMap<string, Unsupported> = new Map<string, Unsupported>([
  ['functions', [isEmptyList, 'are not supported: use tools']],
  ['function_call', [isNoChoice, 'is not supported: use tool_choice']],
  ['modalities', [isTextOnly, 'must be ["text"]: no other modality is supported']],
  ['audio', [never, 'is not supported']],
  ['web_search_options', [never, 'are not supported']],
]);

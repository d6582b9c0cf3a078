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
  REASONING_EFFORTS,
  ToolSchema,
  type GenerateRequest,
} from '../generate.ts';
import { given } from '../given.ts';
import { formatOf, type OpenAiFormat } from './response-format.ts';
import { toMessage } from './messages.ts';
import { readFields, SHARED_FIELDS, sharedRequest, toMaxTokens, type Unsupported } from './shared-fields.ts';
import { invalid, parse } from '../validate.ts';

export interface ChatCompletionCall {
  readonly request: GenerateRequest;
  /** `n`: number of answers to the prompt. */
  readonly choices: number;
  /** The prompt is only computed, so that the next request finds it in the prefix cache. */
  readonly isWarmUp: boolean;
  readonly stream: boolean;
  /** `stream_options.include_usage`. */
  readonly includeUsage: boolean;
  /** Caller's name of the `format` field, for errors; null: no format. */
  readonly formatNames: OpenAiFormat['names'] | null;
}

const { max_tokens, parallel_tool_calls, logprobs } = GenerateRequestSchema.entries;
/** The fields that have our name and meaning, besides those of SHARED_FIELDS. */
const SameSchema = v.pick(GenerateRequestSchema, ['reasoning_budget_tokens', 'chat_template_kwargs']);
const tool = <Entries extends v.ObjectEntries>(entries: Entries) =>
  v.object({ type: v.literal('function'), function: v.object(entries) });
/** null means absent here, too: it is what Python's clients send of a tool without a description. */
const WIRE_TOOL = {
  ...ToolSchema.entries,
  description: v.nullish(ToolSchema.entries.description.wrapped),
  parameters: v.nullish(ToolSchema.entries.parameters.wrapped, {}),
};

/** Without the fields that messages.ts and response-format.ts read. */
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
  tools: v.exactOptional(v.pipe(v.array(tool(WIRE_TOOL)), v.maxLength(LIMITS.tools))),
  tool_choice: v.exactOptional(
    v.union([v.picklist(['auto', 'none', 'required']), tool({ name: ToolSchema.entries.name })]),
  ),
  parallel_tool_calls,
  /** `max` is `xhigh` here: no limit. */
  reasoning_effort: v.exactOptional(v.picklist([...REASONING_EFFORTS, 'max'])),
  logprobs: v.exactOptional(v.boolean(), false),
  top_logprobs: logprobs,
});

type Call = v.InferOutput<typeof ChatCompletionSchema>;

/** Throws INVALID_REQUEST with `param`. */
export function parseChatCompletion(body: unknown): ChatCompletionCall {
  const fields = readFields(body, UNSUPPORTED);
  const call = parse(ChatCompletionSchema, fields);
  const format = formatOf(fields);
  const limit = call.n_predict ?? call.max_completion_tokens ?? call.max_tokens;
  if ((call.top_logprobs ?? 0) > 0 && !call.logprobs) throw invalid('top_logprobs', 'requires logprobs: true');
  return {
    request: {
      ...sharedRequest(call, fields),
      ...parse(SameSchema, call),
      messages: call.messages.map(toMessage),
      ...toolsOf(call),
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
    formatNames: format?.names ?? null,
  };
}

function toolsOf({ tools = [], tool_choice: choice, parallel_tool_calls }: Call): Partial<GenerateRequest> {
  if (tools.length === 0) {
    if (asksForCall(choice)) throw invalid('tool_choice', 'requires tools');
    return {};
  }
  return {
    tools: tools.map(({ function: { description, ...each } }) => ({
      ...each,
      ...given({ description: description ?? undefined }),
    })),
    ...given({ tool_choice: typeof choice === 'object' ? choice.function : choice, parallel_tool_calls }),
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

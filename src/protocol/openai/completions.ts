/**
 * `POST /v1/completions`, OpenAI's legacy API: converts its format to requests with raw prompts, one for each prompt.
 * Fields are treated as in chat-request.ts.
 */
import * as v from 'valibot';
import { GenerateRequestSchema, LIMITS, type GenerateRequest, type RawPrompt } from '../generate.ts';
import { given } from '../given.ts';
import { TokenSchema } from '../tokenize.ts';
import type { ChatCompletionCall } from './chat-request.ts';
import { formatOf } from './response-format.ts';
import { readFields, sharedRequest, SHARED_FIELDS, toMaxTokens, type Unsupported } from './shared-fields.ts';
import { invalid, parse } from '../validate.ts';

export interface CompletionCall extends Omit<ChatCompletionCall, 'request' | 'ignoredTools'> {
  /** One for each prompt. */
  readonly requests: readonly CompletionRequest[];
  readonly echo: boolean;
}
export type CompletionRequest = GenerateRequest & { readonly raw: RawPrompt };

/** OpenAI's default; a model's own setting takes precedence. */
const DEFAULT_MAX_TOKENS = 16;

/** Without the prompt, whose size is checked before its parts are. */
export const CompletionSchema = v.object({
  ...SHARED_FIELDS,
  /** 0: only computes the prompt. */
  max_tokens: v.exactOptional(v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(LIMITS.maxTokens))),
  logprobs: GenerateRequestSchema.entries.logprobs,
  echo: v.exactOptional(v.boolean(), false),
  suffix: v.exactOptional(v.string(), ''),
  best_of: v.exactOptional(v.pipe(v.number(), v.integer(), v.minValue(1))),
});

/** Throws INVALID_REQUEST with `param`. */
export function parseCompletion(body: unknown): CompletionCall {
  const fields = readFields(body, UNSUPPORTED);
  const prompts = promptsOf(fields['prompt']);
  const call = parse(CompletionSchema, fields);
  const { n, echo, suffix, best_of, logprobs } = call;
  if (best_of !== undefined && best_of !== n) throw invalid('best_of', 'must be equal to n: no answers are dropped');
  if (echo && logprobs !== undefined)
    throw invalid('echo', 'cannot be combined with logprobs: those of a prompt are not computed');
  if (prompts.length * n > LIMITS.completions)
    throw invalid('n', `makes more than ${String(LIMITS.completions)} answers together with the prompts`);
  const format = formatOf(fields);
  // Absent here, the limit has a default; -1 is none.
  const limit = call.n_predict ?? ((body as { max_tokens?: unknown }).max_tokens === -1 ? -1 : call.max_tokens);
  const shared = {
    ...sharedRequest(call, fields),
    messages: [],
    ...given({
      max_tokens: toMaxTokens(limit),
      default_max_tokens: limit === undefined ? DEFAULT_MAX_TOKENS : undefined,
      format: format?.format,
      logprobs,
    }),
  };
  return {
    requests: prompts.map((prompt) => ({ ...shared, raw: suffix === '' ? prompt : gapOf(prompt, suffix) })),
    choices: n,
    echo,
    isWarmUp: limit === 0,
    stream: call.stream,
    includeUsage: call.stream_options?.include_usage ?? false,
    names: format === null ? [] : [format.names],
  };
}

/** A text, a list of token ids, or a list of either. Throws INVALID_REQUEST with `param`. */
export function promptsOf(prompt: unknown): RawPrompt[] {
  if (prompt === undefined) throw invalid('prompt', 'is required');
  const isOne = typeof prompt === 'string' || (Array.isArray(prompt) && typeof prompt[0] === 'number');
  if (!isOne && !Array.isArray(prompt)) throw invalid('prompt', 'must be a string or a list');
  const list: readonly unknown[] = isOne ? [prompt] : (prompt as unknown[]);
  if (list.length === 0) throw invalid('prompt', 'must have a length of at least 1');
  if (list.length > LIMITS.completions)
    throw invalid('prompt', `must have a length of at most ${String(LIMITS.completions)}`);
  // Counted before they are validated one by one: there may be millions.
  const tokens = list.reduce<number>((sum, each) => sum + (Array.isArray(each) ? each.length : 0), 0);
  if (tokens > LIMITS.tokenIds) throw invalid('prompt', `must have at most ${String(LIMITS.tokenIds)} token ids`);
  return list.map((each, index) => toRaw(each, isOne ? 'prompt' : `prompt[${String(index)}]`));
}

const TokensSchema = v.pipe(v.array(TokenSchema), v.minLength(1));

function toRaw(prompt: unknown, param: string): RawPrompt {
  if (typeof prompt === 'string') return { text: prompt };
  if (!Array.isArray(prompt)) throw invalid(param, 'must be a string or a list of token ids');
  return { tokens: parse(TokensSchema, prompt, param) };
}

/** The answer stands between the prompt and the suffix. */
function gapOf(prompt: RawPrompt, suffix: string): RawPrompt {
  if (!('text' in prompt)) throw invalid('suffix', 'requires prompts that are texts');
  return { text: '', infill: { prefix: prompt.text, suffix, extra: [] } };
}

const isEmptyText = (value: unknown): boolean => value === '';
const isEmptyList = (value: unknown): boolean => Array.isArray(value) && value.length === 0;

const UNSUPPORTED: ReadonlyMap<string, Unsupported> = new Map<string, Unsupported>([
  ['messages', [isEmptyList, 'are not read here: send them to /v1/chat/completions']],
  ['tools', [isEmptyList, 'are not supported here: use /v1/chat/completions']],
  ['prompt_embeds', [isEmptyText, 'are not supported']],
]);

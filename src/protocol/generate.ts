/**
 * One request goes in, one stream of events comes out: the same two types at every hop between a
 * prompt and the engine that answers it (control socket, routing, backend, engine process).
 */
import * as v from 'valibot';
import { SvcError } from './errors.ts';
import { LIMITS } from './limits.ts';

export { LIMITS };

const finite = v.pipe(v.number(), v.finite());

/** JSON of any kind, of which only the size is bounded here: whoever enforces it checks the rest. */
const jsonObject = v.record(v.string(), v.unknown());

export const ContentPartSchema = v.variant('type', [
  v.object({ type: v.literal('text'), text: v.string() }),
  /** `data` is base64. */
  v.object({
    type: v.literal('image'),
    media_type: v.picklist(['image/png', 'image/jpeg', 'image/gif', 'image/webp']),
    data: v.pipe(
      v.string(),
      v.minLength(1),
      v.check((data) => !/[^A-Za-z0-9+/=]/.test(data)),
    ),
  }),
  /** Fetched by the provider; svc itself fetches nothing that a prompt names. */
  v.object({ type: v.literal('image_url'), url: v.pipe(v.string(), v.regex(/^https:\/\//), v.maxLength(8192)) }),
]);
export type ContentPart = v.InferOutput<typeof ContentPartSchema>;

export const ToolCallSchema = v.object({
  id: v.pipe(v.string(), v.minLength(1), v.maxLength(LIMITS.toolCallIdLength)),
  name: v.pipe(v.string(), v.minLength(1), v.maxLength(LIMITS.toolNameLength)),
  /** JSON as the model wrote it, which may be wrong. */
  arguments: v.string(),
});
export type ToolCall = v.InferOutput<typeof ToolCallSchema>;

export const MessageSchema = v.object({
  role: v.picklist(['system', 'user', 'assistant', 'tool']),
  content: v.union([v.string(), v.pipe(v.array(ContentPartSchema), v.maxLength(LIMITS.contentParts))]),
  /** Of an assistant that thought aloud: some providers want it back beside its tool calls. */
  reasoning: v.exactOptional(v.string()),
  /** What the assistant asked for. */
  tool_calls: v.exactOptional(v.pipe(v.array(ToolCallSchema), v.maxLength(LIMITS.tools))),
  /** Of a `tool` message: the call that it answers. */
  tool_call_id: v.exactOptional(v.pipe(v.string(), v.maxLength(LIMITS.toolCallIdLength))),
});
export type Message = v.InferOutput<typeof MessageSchema>;

export const ToolSchema = v.object({
  name: v.pipe(v.string(), v.minLength(1), v.maxLength(LIMITS.toolNameLength)),
  description: v.exactOptional(v.string()),
  /** JSON Schema of the arguments. */
  parameters: v.exactOptional(jsonObject, {}),
});
export type Tool = v.InferOutput<typeof ToolSchema>;

/** What the text has to be. Where it cannot be enforced the request is refused. */
export const FormatSchema = v.variant('type', [
  v.object({ type: v.literal('json_object') }),
  v.object({
    type: v.literal('json_schema'),
    schema: jsonObject,
    name: v.exactOptional(v.pipe(v.string(), v.maxLength(LIMITS.toolNameLength))),
    strict: v.exactOptional(v.boolean()),
  }),
  /** GBNF. */
  v.object({
    type: v.literal('grammar'),
    grammar: v.pipe(v.string(), v.minLength(1), v.maxLength(LIMITS.grammarBytes)),
  }),
]);
export type Format = v.InferOutput<typeof FormatSchema>;

export const REASONING_EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh'] as const;

/** Listeners that others reach name models, never files. Throws MODEL_NOT_FOUND. */
export function refuseFile({ model }: { readonly model?: string }): void {
  if (model?.startsWith('file:') !== true) return;
  throw new SvcError('MODEL_NOT_FOUND', 'a model is named by its id here, not by a file', {
    hint: 'register the file with `svc model add FILE`',
    param: 'model',
  });
}

/** Sampler settings. What is absent keeps llama.cpp's default, so that a seed gives llama-server's text. */
export const SamplingSchema = v.object({
  /** 0 is greedy. Default 0.8. */
  temperature: v.exactOptional(v.pipe(finite, v.minValue(0), v.maxValue(100))),
  /** 0 keeps all. Default 40. */
  top_k: v.exactOptional(v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(1_000_000))),
  /** 1 is off. Default 0.95. */
  top_p: v.exactOptional(v.pipe(finite, v.minValue(0), v.maxValue(1))),
  /** 0 is off. Default 0.05. */
  min_p: v.exactOptional(v.pipe(finite, v.minValue(0), v.maxValue(1))),
  /** Over the last 64 tokens; 1 is off. */
  repeat_penalty: v.exactOptional(v.pipe(finite, v.minValue(0.01), v.maxValue(100))),
  frequency_penalty: v.exactOptional(v.pipe(finite, v.minValue(-2), v.maxValue(2))),
  presence_penalty: v.exactOptional(v.pipe(finite, v.minValue(-2), v.maxValue(2))),
  /** Absent: drawn anew for each request. */
  seed: v.exactOptional(v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(0xffff_ffff))),
  /** Token id and bias; a bias is added to the token's logit before sampling. */
  logit_bias: v.exactOptional(
    v.pipe(
      v.array(
        v.tuple([v.pipe(v.number(), v.integer(), v.minValue(0)), v.pipe(finite, v.minValue(-100), v.maxValue(100))]),
      ),
      v.maxLength(LIMITS.logitBias),
    ),
  ),
});
export type Sampling = v.InferOutput<typeof SamplingSchema>;

export const GenerateRequestSchema = v.object({
  /** Id or alias of an installed model, or `provider/model`. Absent: the default of the route. */
  model: v.exactOptional(v.pipe(v.string(), v.minLength(1), v.maxLength(LIMITS.modelNameLength))),
  /** A chat; rendered with the model's own template. */
  messages: v.pipe(v.array(MessageSchema), v.minLength(1), v.maxLength(LIMITS.messages)),
  /** Absent: until the model ends its turn or the context is full. */
  max_tokens: v.exactOptional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(LIMITS.maxTokens))),
  /**
   * true: what does not fit in the context is left out, the oldest turns first, and the usage tells how much.
   * Otherwise such a prompt is refused.
   */
  truncate: v.exactOptional(v.boolean()),
  sampling: v.exactOptional(SamplingSchema, {}),
  /** The text ends before the first of these; none of it is ever sent. */
  stop: v.exactOptional(
    v.pipe(
      v.array(v.pipe(v.string(), v.minLength(1), v.maxLength(LIMITS.stopStringBytes))),
      v.maxLength(LIMITS.stopStrings),
    ),
    [],
  ),
  tools: v.exactOptional(v.pipe(v.array(ToolSchema), v.maxLength(LIMITS.tools))),
  /** `auto`, `none`, `required`, or the one tool that has to be called. Absent: `auto`. */
  tool_choice: v.exactOptional(
    v.union([v.picklist(['auto', 'none', 'required']), v.object({ name: ToolSchema.entries.name })]),
  ),
  /** false: at most one call an answer. */
  parallel_tool_calls: v.exactOptional(v.boolean()),
  format: v.exactOptional(FormatSchema),
  /** How long a model that thinks may think. Absent: as it likes. */
  reasoning_effort: v.exactOptional(v.picklist(REASONING_EFFORTS)),
  /** How many alternatives to tell for each token; 0 tells its own probability only. Absent: none of it. */
  logprobs: v.exactOptional(v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(LIMITS.topLogprobs))),
  /** `local`, `cloud`, or `provider:NAME`. Absent: the configured order. */
  route: v.exactOptional(v.pipe(v.string(), v.maxLength(LIMITS.routeLength))),
  /** false: the first candidate of the policy answers or nobody does. */
  fallback: v.exactOptional(v.boolean()),
  /** `batch` makes way for `interactive`, the default, in a local engine, but does not wait for ever. */
  priority: v.exactOptional(v.picklist(['interactive', 'batch'])),
  /** Tokens that a local engine's context has at least; one that is shorter is made anew, one that is longer stays. */
  context_length: v.exactOptional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(LIMITS.contextLength))),
  /** false: a local engine writes neither the prompt nor the answer to the disk. Default true. */
  store: v.exactOptional(v.boolean()),
  /** How long a local model stays loaded after this answer; -1: for ever. Absent: as was said of the model. */
  keep_alive_seconds: v.exactOptional(v.pipe(finite, v.minValue(-1), v.maxValue(LIMITS.keepAliveSeconds))),
  /** Milliseconds from arrival until TIMEOUT. Absent: no deadline. */
  timeout_ms: v.exactOptional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(86_400_000))),
});
export type GenerateRequest = v.InferOutput<typeof GenerateRequestSchema>;

/** `content_filter`: a provider withheld the rest. */
export type FinishReason = 'stop' | 'length' | 'tool_calls' | 'content_filter' | 'cancelled';

export interface Usage {
  readonly input_tokens: number;
  readonly output_tokens: number;
  /** Input tokens that were not computed because a cache held them. */
  readonly cached_tokens: number;
  /** Of the prompt, left out because they did not fit; not among the input tokens. Where `truncate` was asked for. */
  readonly truncated_tokens?: number;
}

export interface Timings {
  /** From arrival until the engine took the request up. */
  readonly queue_ms: number;
  /** From arrival until the first token. null: there was none. */
  readonly ttft_ms: number | null;
  readonly total_ms: number;
  /** Output tokens after the first, per second. null: fewer than two tokens. */
  readonly tokens_per_second: number | null;
}

export interface RouteAttempt {
  readonly provider: string;
  readonly model: string | null;
  readonly outcome: 'ok' | 'failed' | 'skipped';
  readonly reason: string | null;
}

export interface Route {
  readonly requested: string;
  readonly chosen: string;
  readonly attempts: readonly RouteAttempt[];
}

/** First event: who answers. Comes once a backend has taken the request, before any text. */
export interface StartEvent {
  readonly type: 'start';
  readonly model: string;
  readonly provider: string;
}
/** Whole UTF-8 characters, never part of a stop string. */
export interface TextEvent {
  readonly type: 'text';
  readonly text: string;
  /** Of the tokens of this text, where they were asked for. */
  readonly logprobs?: readonly TokenLogprobs[];
}
export interface TokenLogprob {
  readonly token: string;
  /** UTF-8; the token may be part of a character. */
  readonly bytes: readonly number[];
  readonly logprob: number;
}
export interface TokenLogprobs extends TokenLogprob {
  readonly top: readonly TokenLogprob[];
}
/** What the model thinks before it answers; no part of the answer. */
export interface ReasoningEvent {
  readonly type: 'reasoning';
  readonly text: string;
}
/** A piece of a tool call. The first of an `index` has `id` and `name`; the `arguments` of all, joined, are the call's. */
export interface ToolCallEvent {
  readonly type: 'tool_call';
  readonly index: number;
  readonly id?: string;
  readonly name?: string;
  readonly arguments: string;
}
/** Last event of every answer; a stream that ends without it has failed. */
export interface FinishEvent {
  readonly type: 'finish';
  readonly reason: FinishReason;
  /** null: the provider did not tell. */
  readonly usage: Usage | null;
  readonly timings: Timings;
}
export type GenerateEvent = StartEvent | TextEvent | ReasoningEvent | ToolCallEvent | FinishEvent;

/** What routing adds once it knows. */
export interface RouteEvent {
  readonly type: 'route';
  readonly trace_id: string;
  readonly route: Route;
}

/** The whole answer, as `svc run --json` prints it. */
export interface GenerateResult {
  readonly text: string;
  readonly model: string;
  readonly provider: string;
  readonly route: Route;
  readonly finish_reason: FinishReason;
  /** null: the provider did not tell. */
  readonly usage: Usage | null;
  readonly timings: Timings;
  readonly trace_id: string;
}

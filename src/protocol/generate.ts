/**
 * Generation requests and their events: one request in, one stream of events out. Every hop between a prompt and its
 * engine uses these types and names: control socket, routing, backend, engine process, and the structs of the engine
 * (docs/architecture.md, "The types of a request and of an event").
 */
import * as v from 'valibot';
import { SvcError } from './errors.ts';
import { LIMITS } from './limits.ts';

export { LIMITS };

const finite = v.pipe(v.number(), v.finite());

/** Any JSON object. Its size is bounded by the body limit; the backend that enforces it validates it. */
const jsonObject = v.record(v.string(), v.unknown());

const base64 = v.pipe(
  v.string(),
  v.minLength(1),
  v.check((data) => !/[^A-Za-z0-9+/=]/.test(data)),
);

export const ContentPartSchema = v.variant('type', [
  v.object({ type: v.literal('text'), text: v.string() }),
  /** `data` is base64. */
  v.object({
    type: v.literal('image'),
    media_type: v.picklist(['image/png', 'image/jpeg', 'image/gif', 'image/webp']),
    data: base64,
  }),
  /** Fetched by the provider: svc never fetches a URL from a prompt. */
  v.object({ type: v.literal('image_url'), url: v.pipe(v.string(), v.regex(/^https:\/\//), v.maxLength(8192)) }),
  /** `data` is base64. Local models only. */
  v.object({
    type: v.literal('audio'),
    media_type: v.picklist(['audio/wav', 'audio/mpeg', 'audio/flac']),
    data: v.pipe(base64, v.maxLength(Math.ceil(LIMITS.mediaBytes / 3) * 4)),
  }),
]);
export type ContentPart = v.InferOutput<typeof ContentPartSchema>;
export type AudioPart = Extract<ContentPart, { type: 'audio' }>;

export const ToolCallSchema = v.object({
  /** In a history it may be empty, or that of several calls (history/open-calls.ts). */
  id: v.pipe(v.string(), v.maxLength(LIMITS.toolCallIdLength)),
  name: v.pipe(v.string(), v.minLength(1), v.maxLength(LIMITS.toolNameLength)),
  /** JSON as the model wrote it; may be invalid. */
  arguments: v.string(),
});
export type ToolCall = v.InferOutput<typeof ToolCallSchema>;

export const MessageSchema = v.object({
  role: v.picklist(['system', 'user', 'assistant', 'tool']),
  content: v.union([v.string(), v.pipe(v.array(ContentPartSchema), v.maxLength(LIMITS.contentParts))]),
  /** The assistant's reasoning: some providers require it back together with its tool calls. */
  reasoning: v.exactOptional(v.string()),
  /** Tool calls that the assistant made. */
  tool_calls: v.exactOptional(v.pipe(v.array(ToolCallSchema), v.maxLength(LIMITS.tools))),
  /** `tool` messages only: id of the call that this message answers. Empty or absent: the first open call. */
  tool_call_id: v.exactOptional(v.pipe(v.string(), v.maxLength(LIMITS.toolCallIdLength))),
});
export type Message = v.InferOutput<typeof MessageSchema>;

export const ToolSchema = v.object({
  name: v.pipe(v.string(), v.minLength(1), v.maxLength(LIMITS.toolNameLength)),
  description: v.exactOptional(v.string()),
  /** JSON Schema of the arguments. */
  parameters: v.exactOptional(jsonObject, {}),
  /** true: a local model's arguments always follow the schema, or the request is refused. */
  strict: v.exactOptional(v.nullable(v.boolean())),
});
export type Tool = v.InferOutput<typeof ToolSchema>;

/** True if some tool must be called. `choice`: as on any wire. */
export function asksForCall(choice: unknown): boolean {
  return choice !== undefined && choice !== 'auto' && choice !== 'none';
}

/** Required output format. A backend that cannot enforce it refuses the request. */
export const FormatSchema = v.variant('type', [
  v.object({ type: v.literal('json_object') }),
  v.object({
    type: v.literal('json_schema'),
    schema: jsonObject,
    name: v.exactOptional(v.pipe(v.string(), v.maxLength(LIMITS.toolNameLength))),
    /** false: keywords that cannot be enforced are left out instead of refused. */
    strict: v.exactOptional(v.boolean()),
  }),
  /** GBNF. */
  v.object({
    type: v.literal('grammar'),
    grammar: v.pipe(v.string(), v.minLength(1), v.maxLength(LIMITS.grammarBytes)),
  }),
]);
export type Format = v.InferOutput<typeof FormatSchema>;

/** A LoRA adapter of the model and its strength; 0: as if it were absent. */
export const LoraSchema = v.object({
  id: v.pipe(v.string(), v.minLength(1), v.maxLength(LIMITS.modelNameLength)),
  scale: v.pipe(finite, v.minValue(-100), v.maxValue(100)),
});
export type Lora = v.InferOutput<typeof LoraSchema>;

/** What happens if an answer repeats the same few tokens over and over (native/engine/run/repetition_guard.h). */
export const REPETITION_GUARDS = ['off', 'warn', 'stop'] as const;

export const REASONING_EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh'] as const;

/** Throws MODEL_NOT_FOUND if `model` is a file: network clients may name only registered models. */
export function refuseFile({ model }: { readonly model?: string }): void {
  if (model?.startsWith('file:') !== true) return;
  throw new SvcError('MODEL_NOT_FOUND', '`file:` models are accepted only on the control socket', {
    hint: 'register the file with `svc model add FILE`, then request it by its id',
    param: 'model',
  });
}

/** Sampler settings. Absent ones keep llama.cpp's defaults, so that a seed gives the same text as llama-server. */
export const SamplingSchema = v.object({
  /** 0 is greedy. Default 0.8. */
  temperature: v.exactOptional(v.pipe(finite, v.minValue(0), v.maxValue(100))),
  /** The temperature varies by this much around `temperature`, with the entropy of the candidates. Default 0. */
  dynatemp_range: v.exactOptional(v.pipe(finite, v.minValue(0), v.maxValue(100))),
  /** How the entropy maps to the temperature. Default 1. */
  dynatemp_exponent: v.exactOptional(v.pipe(finite, v.minValue(0), v.maxValue(100))),
  /** 0 is off. Default 40. */
  top_k: v.exactOptional(v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(1_000_000))),
  /** 1 is off. */
  typical_p: v.exactOptional(v.pipe(finite, v.minValue(0), v.maxValue(1))),
  /** 1 is off. Default 0.95. */
  top_p: v.exactOptional(v.pipe(finite, v.minValue(0), v.maxValue(1))),
  /** 0 is off. Default 0.05. */
  min_p: v.exactOptional(v.pipe(finite, v.minValue(0), v.maxValue(1))),
  /** Probability that all candidates above the threshold but the least likely are left out; 0 is off. */
  xtc_probability: v.exactOptional(v.pipe(finite, v.minValue(0), v.maxValue(1))),
  /** Default 0.1; above 0.5 is off. */
  xtc_threshold: v.exactOptional(v.pipe(finite, v.minValue(0), v.maxValue(1))),
  /** Version 1 or 2, instead of top-k, typical, top-p, min-p and XTC; 0 is off. */
  mirostat: v.exactOptional(v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(2))),
  /** Surprise that is aimed at, in bits. Default 5. */
  mirostat_tau: v.exactOptional(v.pipe(finite, v.minValue(0), v.maxValue(100))),
  /** Learning rate. Default 0.1. */
  mirostat_eta: v.exactOptional(v.pipe(finite, v.minValue(0), v.maxValue(1))),
  /** Over the last `repeat_last_n` tokens; 1 is off. */
  repeat_penalty: v.exactOptional(v.pipe(finite, v.minValue(0.01), v.maxValue(100))),
  /** Number of tokens that the three penalties look back at; 0 turns them off. Default 64. */
  repeat_last_n: v.exactOptional(v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(65_536))),
  frequency_penalty: v.exactOptional(v.pipe(finite, v.minValue(-2), v.maxValue(2))),
  presence_penalty: v.exactOptional(v.pipe(finite, v.minValue(-2), v.maxValue(2))),
  /**
   * DRY: a token that extends a repetition of `length` tokens loses multiplier × base^(length − allowed length) of its
   * logit; 0 is off.
   */
  dry_multiplier: v.exactOptional(v.pipe(finite, v.minValue(0), v.maxValue(100))),
  /** Default 1.75. */
  dry_base: v.exactOptional(v.pipe(finite, v.minValue(1), v.maxValue(100))),
  /** In tokens. Default 2. */
  dry_allowed_length: v.exactOptional(v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(65_536))),
  /** Number of tokens that are searched for repetitions. Default 64. */
  dry_penalty_last_n: v.exactOptional(v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(65_536))),
  /** A repetition does not go across these texts. Default: a line break, `:`, `"` and `*`. */
  dry_sequence_breakers: v.exactOptional(
    v.pipe(v.array(v.pipe(v.string(), v.minLength(1), v.maxBytes(40))), v.maxLength(16)),
  ),
  /** Absent: random for each request. */
  seed: v.exactOptional(v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(0xffff_ffff))),
  /** Pairs of token id and bias. The bias is added to the token's logit before sampling. */
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
  /** Id or alias of an installed model, or `provider/model`. Absent: the route's default. */
  model: v.exactOptional(v.pipe(v.string(), v.minLength(1), v.maxLength(LIMITS.modelNameLength))),
  /** A chat; rendered with the model's own template. */
  messages: v.pipe(v.array(MessageSchema), v.minLength(1), v.maxLength(LIMITS.messages)),
  /** Absent: until the model ends its turn or the context is full. */
  max_tokens: v.exactOptional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(LIMITS.maxTokens))),
  /**
   * true: drops the oldest turns of a prompt that does not fit in the context; the usage counts the dropped tokens.
   * Otherwise such a prompt is refused.
   */
  truncate: v.exactOptional(v.boolean()),
  sampling: v.exactOptional(SamplingSchema, {}),
  /**
   * The text ends before the first stop string, no part of which is sent. In the reasoning and in tool calls of local
   * models, and after these, stop strings end nothing.
   */
  stop: v.exactOptional(
    v.pipe(
      v.array(v.pipe(v.string(), v.minLength(1), v.maxLength(LIMITS.stopStringBytes))),
      v.maxLength(LIMITS.stopStrings),
    ),
    [],
  ),
  /**
   * If a local model's answer repeats itself without end: `warn` reports it in the last event, `stop` also ends the
   * answer, with the reason `length`. Absent: the model's setting.
   */
  repetition_guard: v.exactOptional(v.picklist(REPETITION_GUARDS)),
  /** LoRA adapters of a local model; empty: none. Absent: the model's setting. */
  lora: v.exactOptional(v.pipe(v.array(LoraSchema), v.maxLength(LIMITS.lora))),
  tools: v.exactOptional(v.pipe(v.array(ToolSchema), v.maxLength(LIMITS.tools))),
  /** `auto`, `none`, `required`, or the one tool to call. Absent: `auto`. */
  tool_choice: v.exactOptional(
    v.union([v.picklist(['auto', 'none', 'required']), v.object({ name: ToolSchema.entries.name })]),
  ),
  /** false: at most one call per answer. */
  parallel_tool_calls: v.exactOptional(v.boolean()),
  format: v.exactOptional(FormatSchema),
  /** How much a reasoning model may think. Absent: the model's default. */
  reasoning_effort: v.exactOptional(v.picklist(REASONING_EFFORTS)),
  /** Most tokens of reasoning, 0: none. Local models only. */
  reasoning_budget_tokens: v.exactOptional(
    v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(LIMITS.contextLength)),
  ),
  /** true: a model that cannot reason, or not within these limits, answers as if the two fields were absent. */
  reasoning_optional: v.exactOptional(v.boolean()),
  /** Variables for the chat template of a local model. */
  chat_template_kwargs: v.exactOptional(v.pipe(jsonObject, v.maxEntries(LIMITS.templateVariables))),
  /** Number of alternatives to return per token; 0: only the chosen token. Absent: no log probabilities. */
  logprobs: v.exactOptional(v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(LIMITS.topLogprobs))),
  /** `local`, `cloud`, or `provider:NAME`. Absent: the configured order. */
  route: v.exactOptional(v.pipe(v.string(), v.maxLength(LIMITS.routeLength))),
  /** false: only the policy's first candidate is tried. */
  fallback: v.exactOptional(v.boolean()),
  /** In a local engine, `batch` yields to `interactive` (the default), but is not starved. */
  priority: v.exactOptional(v.picklist(['interactive', 'batch'])),
  /** Minimum context length of a local engine, in tokens. A shorter context is recreated, a longer one is kept. */
  context_length: v.exactOptional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(LIMITS.contextLength))),
  /** false: a local engine writes neither prompt nor answer to disk. Default true. */
  store: v.exactOptional(v.boolean()),
  /** How long a local model stays loaded after this answer; -1: forever. Absent: the model's setting. */
  keep_alive_seconds: v.exactOptional(v.pipe(finite, v.minValue(-1), v.maxValue(LIMITS.keepAliveSeconds))),
  /** From arrival until TIMEOUT. Absent: no deadline. */
  timeout_ms: v.exactOptional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(LIMITS.timeoutMs))),
});

/** A file beside the one with the gap. */
export interface InfillFile {
  readonly filename: string;
  readonly text: string;
}
/** A gap in a text, and what stands around it. */
export interface Infill {
  readonly prefix: string;
  readonly suffix: string;
  readonly extra: readonly InfillFile[];
}
/**
 * A prompt without a chat template. BOS is added to a text if the model requires it, and special-token text in it is
 * parsed; token ids are used unchanged. With `infill` the text is the beginning of what fills the gap.
 */
export type RawPrompt =
  | { readonly text: string; readonly infill?: Infill }
  | { readonly tokens: readonly number[]; readonly infill?: undefined };

/** A request as clients write it: what has a default may be absent. */
export type GenerateInput = v.InferInput<typeof GenerateRequestSchema>;

/**
 * An answer that another request can continue if this one is cut off: a local model's events list their tokens, and the
 * other request gets all of them. It begins the answer with these tokens again, and continues as the first would have.
 */
export interface Continuation {
  /** Seed of the sampler, unless the request sets one; the same in both requests. */
  readonly seed: number;
  /** Tokens of all events so far. */
  readonly tokens: readonly number[];
}

/** `raw`: local models only; `messages` is then empty, and all that concerns chats is absent. */
export type GenerateRequest = v.InferOutput<typeof GenerateRequestSchema> & {
  readonly raw?: RawPrompt;
  readonly continuation?: Continuation;
  /** With `raw` only: the limit if neither `max_tokens` nor the model's settings say one. */
  readonly default_max_tokens?: number;
};

/** `content_filter`: a provider withheld the rest. */
export type FinishReason = 'stop' | 'length' | 'tool_calls' | 'content_filter' | 'cancelled';

export interface Usage {
  readonly input_tokens: number;
  readonly output_tokens: number;
  /** Input tokens taken from a cache. */
  readonly cached_tokens: number;
  /** Prompt tokens dropped because they did not fit; not counted in input_tokens. Only with `truncate`. */
  readonly truncated_tokens?: number;
  /** Output tokens of the reasoning. Absent: there was none, or a provider does not count it. */
  readonly reasoning_tokens?: number;
}

export interface Timings {
  /** From arrival until the engine admitted the request. */
  readonly queue_ms: number;
  /** From arrival until the first token. null: no token. */
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

/** First event: the model and provider. Sent when a backend has accepted the request, before any text. */
export interface StartEvent {
  readonly type: 'start';
  readonly model: string;
  readonly provider: string;
  /** As in Usage. Absent: not known before the end. */
  readonly input_tokens?: number;
}
/** Part of an answer. */
interface Listed {
  /**
   * Only with a `Continuation`, and of local models: tokens generated since the last event that had some. All content
   * delivered so far was made from these and earlier tokens.
   */
  readonly tokens?: readonly number[];
}
/** Whole UTF-8 characters, never part of a stop string. */
export interface TextEvent extends Listed {
  readonly type: 'text';
  readonly text: string;
  /** Log probabilities of this text's tokens, if requested. */
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
/** The model's reasoning before its answer; not part of the answer. */
export interface ReasoningEvent extends Listed {
  readonly type: 'reasoning';
  readonly text: string;
}
/** Part of a tool call. The first part of an `index` has `id` and `name`; the `arguments` of all parts are joined. */
export interface ToolCallEvent extends Listed {
  readonly type: 'tool_call';
  readonly index: number;
  readonly id?: string;
  readonly name?: string;
  readonly arguments: string;
}
/** An answer that repeats the same tokens over and over. */
export interface Repetition {
  /** Length of the cycle. */
  readonly period_tokens: number;
  /** Length of all its repetitions together. */
  readonly repeated_tokens: number;
  /** True: the answer was ended for it. */
  readonly stopped: boolean;
}
/** Last event of every answer; a stream that ends without it has failed. */
export interface FinishEvent {
  readonly type: 'finish';
  readonly reason: FinishReason;
  /** null: the provider reported none. */
  readonly usage: Usage | null;
  readonly timings: Timings;
  /** Only with `repetition_guard`, if the answer repeats itself. */
  readonly repetition?: Repetition;
  /**
   * With the reason `stop`: the stop string that ended the answer. Absent: none, or the provider does not report it.
   */
  readonly stop_string?: string;
}
export type GenerateEvent = StartEvent | TextEvent | ReasoningEvent | ToolCallEvent | FinishEvent;

/** The routing decision; added by the router. */
export interface RouteEvent {
  readonly type: 'route';
  readonly trace_id: string;
  readonly route: Route;
}
export type AnswerEvent = RouteEvent | GenerateEvent;

/** The fields that all whole answers have. */
export interface AnswerFacts {
  readonly model: string;
  readonly provider: string;
  readonly route: Route;
  /** null: the provider reported none. */
  readonly usage: Usage | null;
  readonly timings: Timings;
  readonly trace_id: string;
}

/** The whole answer, as `svc run --json` prints it. */
export interface GenerateResult extends AnswerFacts {
  readonly text: string;
  /** Absent: none. */
  readonly reasoning?: string;
  /** Absent: none. */
  readonly tool_calls?: readonly ToolCall[];
  /** One entry for each token of the text. Absent: not requested. */
  readonly logprobs?: readonly TokenLogprobs[];
  readonly finish_reason: FinishReason;
  /** As in FinishEvent. */
  readonly repetition?: Repetition;
}

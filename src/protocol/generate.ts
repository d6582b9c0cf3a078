/**
 * One request goes in, one stream of events comes out: the same two types at every hop between a
 * prompt and the engine that answers it (control socket, routing, backend, engine process).
 */
import * as v from 'valibot';
import { LIMITS } from './limits.ts';

export { LIMITS };

const finite = v.pipe(v.number(), v.finite());

export const MessageSchema = v.object({
  role: v.picklist(['system', 'user', 'assistant', 'tool']),
  content: v.string(),
});
export type Message = v.InferOutput<typeof MessageSchema>;

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
  sampling: v.exactOptional(SamplingSchema, {}),
  /** The text ends before the first of these; none of it is ever sent. */
  stop: v.exactOptional(
    v.pipe(
      v.array(v.pipe(v.string(), v.minLength(1), v.maxLength(LIMITS.stopStringBytes))),
      v.maxLength(LIMITS.stopStrings),
    ),
    [],
  ),
  /** `local`, `cloud`, or `provider:NAME`. Absent: the configured order. */
  route: v.exactOptional(v.string()),
  /** Milliseconds from arrival until TIMEOUT. Absent: no deadline. */
  timeout_ms: v.exactOptional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(86_400_000))),
});
export type GenerateRequest = v.InferOutput<typeof GenerateRequestSchema>;

export type FinishReason = 'stop' | 'length' | 'tool_calls' | 'cancelled';

export interface Usage {
  readonly input_tokens: number;
  readonly output_tokens: number;
  /** Input tokens that were not computed because a cache held them. */
  readonly cached_tokens: number;
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
}
/** Last event of every answer; a stream that ends without it has failed. */
export interface FinishEvent {
  readonly type: 'finish';
  readonly reason: FinishReason;
  readonly usage: Usage;
  readonly timings: Timings;
}
export type GenerateEvent = StartEvent | TextEvent | FinishEvent;

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
  readonly usage: Usage;
  readonly timings: Timings;
  readonly trace_id: string;
}

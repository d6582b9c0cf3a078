/**
 * Validates what an engine process sends. The engine has read an untrusted file and is itself untrusted: every frame is
 * checked before the daemon uses any of it. The table is typed by the frames: a field without a check does not
 * compile. The checks are plain functions because one runs per token.
 *
 * Every text and list has a maximum here, except the texts of an answer. A frame bounds these (frames.ts), and the
 * answer bounds what it keeps of them (backends/local/generation.ts).
 */
import type { SandboxReport } from '../process/addon.ts';
import type { ErrorRecord, Overflow } from '../protocol/errors.ts';
import type { Repetition, Usage } from '../protocol/generate.ts';
import { LIMITS } from '../protocol/limits.ts';
import type { StepsHealth } from '../protocol/records.ts';
import type {
  EngineFinish,
  EngineInfo,
  EngineOutput,
  NativeDevice,
  NativeDeviceMemory,
  NativeLogprob,
  NativeMemoryEstimate,
  NativeMemoryEstimates,
  NativeStats,
  NativeToolCallPart,
} from './addon.ts';
import type { FromEngine, ProbedDevice, ProbeFacts, SandboxAttempt, SubmitProgress } from './messages.ts';

type Check = (value: unknown) => boolean;
type Fields<Type> = { readonly [Name in keyof Required<Type>]: Check };
type Frame<Type extends FromEngine['type']> = Omit<Extract<FromEngine, { type: Type }>, 'type'>;

/** Upper bound of sizes in bytes and of counts. */
const MOST = 2 ** 50;
const NAME_LENGTH = 1024;
const TEXT_LENGTH = 64 * 1024;
const LIST_LENGTH = 4096;
const MOST_DEVICES = 256;
/** Outputs of a step: more requests than an engine can have. */
const MOST_OUTPUTS = 128 * 1024;
/** Tokens of a frame. A text to tokenize, or to be answered, has at most as many bytes. */
export const MOST_TOKENS: number = LIMITS.renderedBytes;

const figure: Check = (value) => typeof value === 'number' && value >= 0 && value <= MOST;
const finite: Check = (value) => Number.isFinite(value);
const tokenId: Check = (value) => Number.isInteger(value) && Number(value) >= -1 && Number(value) <= MOST;
const flag: Check = (value) => typeof value === 'boolean';
const answerText: Check = (value) => typeof value === 'string';
const atMost =
  (length: number): Check =>
  (value) =>
    typeof value === 'string' && value.length <= length;
const name = atMost(NAME_LENGTH);
const oneOf = (...values: readonly string[]): Check => {
  const known = new Set<unknown>(values);
  return (value) => known.has(value);
};
const nullable =
  (check: Check): Check =>
  (value) =>
    value === null || check(value);
const optional =
  (check: Check): Check =>
  (value) =>
    value === undefined || check(value);
const listOf =
  (check: Check, most: number): Check =>
  (value) =>
    Array.isArray(value) && value.length <= most && value.every(check);

function object<Type>(fields: Fields<Type>): Check {
  const checks = Object.entries<Check>(fields);
  return (value) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
    const given = value as Readonly<Record<string, unknown>>;
    for (const [field, check] of checks) if (!check(given[field])) return false;
    return true;
  };
}

const error = object<ErrorRecord>({
  code: name,
  message: atMost(TEXT_LENGTH),
  hint: optional(atMost(TEXT_LENGTH)),
  param: optional(name),
  retry_after_seconds: optional(figure),
  overflow: optional(object<Overflow>({ prompt_tokens: figure, is_minimum: flag, context_length: figure })),
});

const deviceFields: Fields<NativeDevice> = {
  name,
  description: name,
  backend: name,
  type: oneOf('cpu', 'gpu', 'igpu', 'accel'),
  memory_total_bytes: nullable(figure),
  memory_free_bytes: nullable(figure),
};

const estimate = object<NativeMemoryEstimate>({
  context_length: figure,
  devices: listOf(
    object<NativeDeviceMemory>({
      name,
      is_host: flag,
      weights_bytes: figure,
      mapped_bytes: figure,
      cache_bytes: figure,
      compute_bytes: figure,
      free_bytes: nullable(figure),
      total_bytes: nullable(figure),
    }),
    LIST_LENGTH,
  ),
});

const info = object<EngineInfo>({
  trained_context_length: figure,
  context_length: figure,
  vocabulary: figure,
  embedding_length: (value) => figure(value) && Number(value) <= LIMITS.embedDimensions,
  layers: figure,
  calls_tools: flag,
  thinks: flag,
  makes_embeddings: flag,
  ranks: flag,
  draft_refusal: nullable(name),
  sees: flag,
  hears: flag,
  projector_refusal: nullable(atMost(TEXT_LENGTH)),
  adapters: listOf(object<EngineInfo['adapters'][number]>({ id: name, error: atMost(TEXT_LENGTH) }), LIST_LENGTH),
  device: name,
});

/** JSON has no infinity: the logarithm of probability 0 is sent as null. */
const logprobFields: Fields<NativeLogprob> = { bytes: name, logprob: nullable(finite) };

const output = object<EngineOutput>({
  id: figure,
  text: answerText,
  reasoning: optional(answerText),
  tool_calls: optional(
    listOf(object<NativeToolCallPart>({ index: figure, id: name, name, arguments: answerText }), LIST_LENGTH),
  ),
  logprobs: optional(
    listOf(
      object<NonNullable<EngineOutput['logprobs']>[number]>({
        ...logprobFields,
        top: listOf(object(logprobFields), LIMITS.topLogprobs),
      }),
      MOST_TOKENS,
    ),
  ),
  tokens: optional(listOf(tokenId, MOST_TOKENS)),
  finish: optional(
    object<EngineFinish>({
      reason: oneOf('stop', 'length', 'tool_calls', 'content_filter', 'cancelled'),
      usage: object<Usage>({
        input_tokens: figure,
        output_tokens: figure,
        reasoning_tokens: optional(figure),
        cached_tokens: figure,
        truncated_tokens: optional(figure),
      }),
      timings: object<EngineFinish['timings']>({
        started_ms: nullable(figure),
        first_token_ms: nullable(figure),
        finished_ms: figure,
      }),
      stop_string: optional(atMost(LIMITS.stopStringBytes)),
      repetition: optional(object<Repetition>({ period_tokens: figure, repeated_tokens: figure, stopped: flag })),
    }),
  ),
  error: optional(error),
});

const stats = object<NativeStats>({
  active: figure,
  waiting: figure,
  kv_cells_used: figure,
  kv_cells_cached: figure,
  kv_cells_total: figure,
  kv_tokens_swapped: figure,
  steps: object<StepsHealth>({
    count: figure,
    rows: figure,
    prompt_tokens: figure,
    cached_tokens: figure,
    generated_tokens: figure,
    drafted_tokens: figure,
    accepted_tokens: figure,
    preemptions: figure,
    evicted_cells: figure,
    predicted_ms: figure,
    spent_ms: figure,
    threads: figure,
  }),
  last_step: object<NativeStats['last_step']>({
    rows: figure,
    prompt_rows: figure,
    predicted_ms: figure,
    spent_ms: figure,
  }),
  tokens_per_second: figure,
  step_age_ms: figure,
  operations: figure,
});

const facts = object<ProbeFacts>({
  addon: nullable(
    object<NonNullable<ProbeFacts['addon']>>({
      path: atMost(TEXT_LENGTH),
      version: name,
      builtFor: name,
      llamaCpp: name,
      llama: oneOf('prebuilt', 'source'),
    }),
  ),
  devices: listOf(
    object<ProbedDevice>({ ...deviceFields, gflops: nullable(figure), error: nullable(atMost(TEXT_LENGTH)) }),
    LIST_LENGTH,
  ),
  cpuFeatures: nullable(atMost(TEXT_LENGTH)),
  log: listOf(atMost(TEXT_LENGTH), LIST_LENGTH),
  error: nullable(error),
});

const FRAMES: { readonly [Type in FromEngine['type']]: Check } = {
  estimated: object<Frame<'estimated'>>({
    estimates: object<NativeMemoryEstimates>({
      trained_context_length: figure,
      layers: figure,
      has_experts: flag,
      makes_embeddings: flag,
      process_bytes: nullable(figure),
      state_fixed_bytes: figure,
      state_token_bytes: figure,
      estimates: listOf(estimate, LIST_LENGTH),
    }),
  }),
  not_estimated: object<Frame<'not_estimated'>>({ error }),
  progress: object<Frame<'progress'>>({ fraction: (value) => figure(value) && Number(value) <= 1.001 }),
  loaded: object<Frame<'loaded'>>({ info }),
  failed: object<Frame<'failed'>>({ error }),
  accepted: object<Frame<'accepted'>>({ id: figure, inputTokens: figure }),
  wants_cells: object<Frame<'wants_cells'>>({ least: figure, wanted: figure }),
  // The decoder has already parsed the numbers.
  vectors: object<Frame<'vectors'>>({ id: figure, vectors: (value) => value instanceof Float32Array }),
  tokens: object<Frame<'tokens'>>({
    id: figure,
    tokens: listOf(tokenId, MOST_TOKENS),
    pieces: optional(listOf(name, MOST_TOKENS)),
    prompt: optional(atMost(LIMITS.renderedBytes)),
  }),
  step: object<Frame<'step'>>({ outputs: listOf(output, MOST_OUTPUTS) }),
  stats: object<Frame<'stats'>>({
    stats: nullable(stats),
    submits: object<SubmitProgress>({ done: figure, oldest: nullable(figure) }),
    rssBytes: figure,
    privateBytes: nullable(figure),
    cpuMs: figure,
  }),
  devices: object<Frame<'devices'>>({ devices: listOf(object(deviceFields), MOST_DEVICES) }),
  log: object<Frame<'log'>>({ level: oneOf('debug', 'info', 'warn', 'error'), text: atMost(TEXT_LENGTH) }),
  tensor: object<Frame<'tensor'>>({ name }),
  quantized: object<Frame<'quantized'>>({ bytes: figure }),
  sandbox_tried: object<Frame<'sandbox_tried'>>({
    report: object<SandboxReport>({
      noNewPrivileges: figure,
      capabilities: figure,
      landlock: figure,
      landlockVersion: figure,
      seccomp: figure,
    }),
    attempts: listOf(object<SandboxAttempt>({ what: name, error: nullable(name) }), LIST_LENGTH),
  }),
  probed: object<Frame<'probed'>>({ facts, next: nullable(name) }),
};

/** True if `message` has all fields of its type, valid. Extra fields are never read. */
export function isFromEngine(message: { readonly type: string }): boolean {
  return FRAMES[message.type as FromEngine['type']](message);
}

/** Makes an engine's request of the protocol's, and the protocol's events of the engine's output. */
import type {
  EngineFinish,
  EngineInfo,
  EngineOutput,
  EngineRequest,
  EngineTokenizeRequest,
  NativeLogprob,
  WithoutId,
} from '../../engine/addon.ts';
import { shareOf } from '../../protocol/caller.ts';
import type { EmbedRequest } from '../../protocol/embed.ts';
import { SvcError } from '../../protocol/errors.ts';
import type {
  FinishEvent,
  Format,
  GenerateRequest,
  RawPrompt,
  TokenLogprob,
  TokenLogprobs,
} from '../../protocol/generate.ts';
import { given } from '../../protocol/given.ts';
import type { RequestSettings } from '../../protocol/model/settings.ts';
import type { ModelRecord } from '../../protocol/records.ts';
import type { RerankRequest } from '../../protocol/rerank.ts';
import type { DetokenizeRequest, TokenizeRequest, TokenizeTextRequest } from '../../protocol/tokenize.ts';
import { invalid } from '../../protocol/validate.ts';
import type { GenerateContext } from '../backend.ts';
import { toChat, toMessages } from './chat.ts';
import type { Plan, SettingNames } from './memory/fit.ts';
import { withTakenResults } from './media/results.ts';
import { Compiled } from './schema/compiled.ts';
import { jsonGrammar, schemaGrammar } from './schema/schema-grammar.ts';

/** Adds what the model's settings in the config say where the request says nothing. */
export function withSettings(request: GenerateRequest, settings: RequestSettings = {}): GenerateRequest {
  const { system, sampling, stop = [], max_tokens, reasoning, repetition_guard, lora } = settings;
  const isChat = request.raw === undefined;
  // A raw prompt has no place for it.
  const hasSystem = system === undefined || !isChat || request.messages.some(({ role }) => role === 'system');
  // A budget is a wish about reasoning, too.
  const thinks = isChat && request.reasoning_budget_tokens === undefined ? reasoning : undefined;
  const { default_max_tokens, ...asked } = request;
  return {
    ...given({ max_tokens: max_tokens ?? default_max_tokens, reasoning_effort: thinks, repetition_guard, lora }),
    ...asked,
    messages: hasSystem ? request.messages : [{ role: 'system', content: system }, ...request.messages],
    sampling: { ...sampling, ...request.sampling },
    stop: request.stop.length > 0 ? request.stop : [...stop],
  };
}

type Sender = Pick<GenerateContext, 'caller' | 'isChoice' | 'traceId'>;

/** Whom the request's tokens count for, and whom it shares its prefixes with. */
function sharing(
  { caller, isChoice, traceId }: Sender,
  among: 'all' | 'key',
): Pick<EngineRequest, 'share' | 'own_prefixes' | 'prefix_group'> {
  const group = isChoice === true ? traceId : undefined;
  return { share: shareOf(caller), own_prefixes: among === 'key', ...given({ prefix_group: group }) };
}

/**
 * Replaces the fields that an engine does not read by what it does; all others stay as they are. Throws
 * INVALID_REQUEST for images by URL, and for schemas and tools that cannot be enforced.
 */
export function toEngineRequest(
  request: GenerateRequest,
  sender?: Sender,
  among: 'all' | 'key' = 'all',
): Omit<EngineRequest, 'id'> {
  const {
    messages: _messages,
    tools: _tools,
    tool_choice: _choice,
    parallel_tool_calls: _parallel,
    reasoning_effort: _effort,
    reasoning_budget_tokens: _budget,
    reasoning_optional: _optional,
    chat_template_kwargs: _variables,
    raw,
    format,
    ...same
  } = request;
  const prompt = raw === undefined ? toChat(request) : toRawPrompt(raw);
  const added = sender === undefined ? {} : sharing(sender, among);
  return { ...same, ...added, ...prompt, ...(format === undefined ? {} : { grammar: toGrammar(format) }) };
}

/** Leaves out what an engine does not read. */
export function toEngineText({
  text,
  add_special,
  parse_special,
  pieces,
}: TokenizeTextRequest): WithoutId<EngineTokenizeRequest> {
  return { text, ...given({ add_special, parse_special, pieces }) };
}

function toRawPrompt(raw: RawPrompt): Pick<EngineRequest, 'prompt' | 'prompt_tokens' | 'infill'> {
  return 'tokens' in raw ? { prompt_tokens: raw.tokens } : { prompt: raw.text, ...given({ infill: raw.infill }) };
}

/**
 * Adapts a request to the loaded model: drops optional settings of the reasoning that the model lacks, and replaces
 * media that it cannot take where the caller can do without them. `asked` was made from `request`. REQUIRES: the engine
 * is loaded.
 */
export function suited(
  asked: Omit<EngineRequest, 'id'>,
  request: GenerateRequest,
  { info }: Pick<PlannedEngine, 'info'>,
): Omit<EngineRequest, 'id'> {
  return withReadableResults(withoutNeedlessWishes(asked, request, info), request, info);
}

function withReadableResults(
  asked: Omit<EngineRequest, 'id'>,
  { messages }: GenerateRequest,
  info: EngineInfo | null,
): Omit<EngineRequest, 'id'> {
  const taken = info === null ? messages : withTakenResults(messages, info);
  return taken === messages ? asked : { ...asked, messages: toMessages(taken) };
}

/** Drops wishes about reasoning, if they are optional and the model cannot reason. An engine refuses them. */
function withoutNeedlessWishes(
  asked: Omit<EngineRequest, 'id'>,
  { reasoning_optional: isOptional }: GenerateRequest,
  info: EngineInfo | null,
): Omit<EngineRequest, 'id'> {
  if (isOptional !== true || info?.thinks !== false || asked.chat === undefined) return asked;
  const { reasoning_effort: _effort, reasoning_budget_tokens: _budget, ...chat } = asked.chat;
  return { ...asked, chat };
}

const grammars = new Compiled<string>();

function toGrammar(format: Format): string {
  return format.type === 'grammar' ? format.grammar : grammars.of(format, compiled);
}

function compiled(format: Exclude<Format, { type: 'grammar' }>): string {
  return format.type === 'json_object'
    ? jsonGrammar()
    : schemaGrammar(format.schema, 'format.schema', format.strict === false);
}

/** What an engine reports of its model, and how it was loaded; null before. */
export interface PlannedEngine {
  readonly info: EngineInfo | null;
  readonly plan: Pick<Plan, 'options' | 'isChosen' | 'settings'> | null;
}

/**
 * Names the field of the request in an error about its grammar, and adds a way out to an error about the context of
 * `engine`.
 */
export function explained(
  error: SvcError,
  request: GenerateRequest | EmbedRequest | RerankRequest | TokenizeRequest | DetokenizeRequest,
  engine: PlannedEngine,
): SvcError {
  const { code, message, param, hint, overflow } = error;
  if (code === 'INVALID_REQUEST' && param === 'grammar') {
    if (!('format' in request)) return invalid('tools', `cannot be enforced: ${message}`);
    const isGrammar = request.format.type === 'grammar';
    return invalid(isGrammar ? 'format.grammar' : 'format.schema', `cannot be enforced: ${message}`);
  }
  if ((code !== 'CONTEXT_OVERFLOW' && code !== 'OUT_OF_MEMORY') || hint !== undefined) return error;
  const longer = code === 'OUT_OF_MEMORY' ? `${MORE_MEMORY}${smallerCache(engine)}` : longerContext(engine);
  return new SvcError(code, message, {
    hint: `${shorter(request)}; ${longer}`,
    ...given({ overflow }),
    cause: error,
  });
}

function shorter(request: Parameters<typeof explained>[1]): string {
  const isTruncated = 'truncate' in request && request.truncate;
  if ('messages' in request && request.raw === undefined) {
    if (isOneOfMedia(request.messages)) return 'send smaller or fewer pictures, or a shorter recording';
    return isTruncated
      ? 'shorten the messages that must be kept'
      : 'shorten it, or drop the oldest turns: "truncate": true, svc run --truncate';
  }
  return isTruncated ? 'shorten it' : 'shorten it, or have it cut off: "truncate": true';
}

/** A turn of pictures or sound has no oldest turn to drop, and its text is short. A transcription is one. */
function isOneOfMedia(messages: GenerateRequest['messages']): boolean {
  const [only, ...others] = messages.filter(({ role }) => role !== 'system');
  return others.length === 0 && Array.isArray(only?.content) && only.content.some(({ type }) => type !== 'text');
}

const MORE_MEMORY = 'for more memory, unload other models (svc model unload NAME)';

/** How the context of a loaded engine can become longer, if it can. */
function longerContext(engine: PlannedEngine): string {
  const { context_length = 0, trained_context_length = 0 } = engine.info ?? {};
  if (trained_context_length > 0 && context_length >= trained_context_length) {
    return 'the model was trained for this length; for more, use a model with a longer context';
  }
  const trained = trained_context_length === 0 ? '' : ` (the model was trained for ${String(trained_context_length)})`;
  // Embedding models have a fixed default.
  if (engine.plan?.isChosen !== true || engine.info?.makes_embeddings === true) {
    const { context_length: setting } = settingsOf(engine);
    return `or set a longer context: svc config set ${setting} N${trained}`;
  }
  return `no longer context fits into memory${trained}: ${MORE_MEMORY.replace('for more memory, ', '')}${smallerCache(engine)}, and load it again`;
}

/** q8_0 takes half the memory of f16. */
function smallerCache(engine: PlannedEngine): string {
  const { cache_type: setting } = settingsOf(engine);
  return engine.plan?.options.cache_type === 'q8_0' ? '' : `, or svc config set ${setting} q8_0`;
}

/** Names of the settings that decide for this engine. */
export function settingsOf({ plan }: Pick<PlannedEngine, 'plan'>): SettingNames {
  return plan?.settings ?? { context_length: 'engine.context_length', cache_type: 'engine.cache_type' };
}

export function toLogprobs(logprobs: NonNullable<EngineOutput['logprobs']>): TokenLogprobs[] {
  return logprobs.map(({ top, ...token }) => ({ ...toLogprob(token), top: top.map(toLogprob) }));
}

function toLogprob({ bytes: latin1, logprob }: NativeLogprob): TokenLogprob {
  const bytes = Buffer.from(latin1, 'latin1');
  return { token: bytes.toString('utf8'), bytes: [...bytes], logprob };
}

/** What a request wants of a model. `tokens`: every model has them. */
export type Wanted = Makes | 'tokens';
/** What a model makes. */
type Makes = 'text' | 'embeddings' | 'scores';

const KINDS: Readonly<Record<Makes, string>> = {
  text: 'a model that generates text',
  embeddings: 'an embedding model',
  scores: 'a reranking model',
};

/** A model makes one of the three. Throws INVALID_REQUEST, before an engine is started in vain. */
export function checkKind({ id, capabilities }: ModelRecord, wanted: Wanted): void {
  const makes: Makes = capabilities.includes('embedding')
    ? 'embeddings'
    : capabilities.includes('rerank')
      ? 'scores'
      : 'text';
  if (wanted === 'tokens' || makes === wanted) return;
  const what = wanted === 'text' ? `is ${KINDS[makes]} and cannot generate text` : `is not ${KINDS[wanted]}`;
  throw new SvcError('INVALID_REQUEST', `${id} ${what}`, {
    hint: 'use another model; `svc model show NAME` lists the capabilities of each',
    param: 'model',
  });
}

/** A model and what its engine reports of it; null before it is loaded. */
export interface LoadedModel {
  readonly model: { readonly id: string };
  readonly info: EngineInfo | null;
}

/** Vectors are never cut: model files do not say whether a shorter vector is still meaningful. REQUIRES: loaded. */
export function checkDimensions(dimensions: number | undefined, { model, info }: LoadedModel): void {
  if (dimensions === undefined || info === null || dimensions === info.embedding_length) return;
  const length = String(info.embedding_length);
  throw invalid('dimensions', `must be ${length} or absent: the vectors of ${model.id} have ${length} numbers`);
}

/**
 * All timings use the daemon's clock: the engine's figures are counted back from the arrival of its last output. So
 * they include pipe and chat template, and are consistent. `arrivedAt` and `finishedAt` are performance.now().
 */
export function toFinishEvent(finish: EngineFinish, arrivedAt: number, finishedAt: number): FinishEvent {
  const { reason, usage, timings, repetition, stop_string } = finish;
  const { started_ms, first_token_ms, finished_ms } = timings;
  const totalMs = finishedAt - arrivedAt;
  const sinceArrival = (engineMs: number): number => Math.max(0, totalMs - (finished_ms - engineMs));
  const decodingMs = first_token_ms === null ? 0 : finished_ms - first_token_ms;
  const later = usage.output_tokens - 1;
  return {
    type: 'finish',
    reason,
    usage,
    timings: {
      queue_ms: round(started_ms === null ? totalMs : sinceArrival(started_ms)),
      ttft_ms: first_token_ms === null ? null : round(sinceArrival(first_token_ms)),
      total_ms: round(totalMs),
      tokens_per_second: later < 1 || decodingMs <= 0 ? null : round((later * 1000) / decodingMs),
    },
    ...given({ repetition, stop_string }),
  };
}

function round(figure: number): number {
  return Math.round(figure * 100) / 100;
}

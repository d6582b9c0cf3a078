/** Converts between protocol types and the native engine's. */
import type { NativeFinish, NativeLogprob, NativeOutput, NativeRequest } from '../../engine/addon.ts';
import type { EngineInfo } from '../../engine/messages.ts';
import { SvcError } from '../../protocol/errors.ts';
import type {
  FinishEvent,
  Format,
  GenerateRequest,
  Message,
  TokenLogprob,
  TokenLogprobs,
} from '../../protocol/generate.ts';
import type { ModelRecord } from '../../protocol/records.ts';
import { invalid } from '../../protocol/validate.ts';
import { jsonGrammar, schemaGrammar } from './schema/schema-grammar.ts';

/** Throws INVALID_REQUEST for tools, images and schemas that it cannot enforce. Ignores `reasoning_effort`. */
export function toNativeRequest(
  request: GenerateRequest,
  { share, ownPrefixes }: Pick<NativeRequest, 'share' | 'ownPrefixes'> = {},
): Omit<NativeRequest, 'id'> {
  const {
    messages,
    max_tokens,
    truncate,
    sampling,
    stop,
    priority,
    tools = [],
    tool_choice = 'auto',
    format,
    logprobs,
    store,
  } = request;
  if (tools.length > 0 && tool_choice !== 'none') throw invalid('tools', NOT_HERE);
  return {
    messages: messages.map(toNativeMessage),
    maxTokens: max_tokens,
    truncate,
    temperature: sampling.temperature,
    topK: sampling.top_k,
    topP: sampling.top_p,
    minP: sampling.min_p,
    repeatPenalty: sampling.repeat_penalty,
    frequencyPenalty: sampling.frequency_penalty,
    presencePenalty: sampling.presence_penalty,
    seed: sampling.seed,
    logitBias: sampling.logit_bias,
    stop,
    priority,
    grammar: format === undefined ? undefined : toGrammar(format),
    logprobs,
    store,
    share,
    ownPrefixes,
  } as Omit<NativeRequest, 'id'>; // JSON leaves out what is undefined
}

function toGrammar(format: Format): string {
  switch (format.type) {
    case 'json_object':
      return jsonGrammar();
    case 'json_schema':
      return schemaGrammar(format.schema, 'format.schema');
    case 'grammar':
      return format.grammar;
  }
}

/** Renames the engine's `grammar` error to the field that the request used, which may be a schema. */
export function ofRequest(error: SvcError, { format }: GenerateRequest): SvcError {
  if (error.code !== 'INVALID_REQUEST' || error.param !== 'grammar') return error;
  const param = format?.type === 'grammar' ? 'format.grammar' : 'format.schema';
  return invalid(param, `cannot be enforced: ${error.message}`);
}

/** Adds a hint to CONTEXT_OVERFLOW. */
export function withWayOut(error: SvcError, { truncate }: Pick<GenerateRequest, 'truncate'>): SvcError {
  if (error.code !== 'CONTEXT_OVERFLOW' || error.hint !== undefined) return error;
  const longer = 'or a longer context: svc config set engine.context_length N';
  return new SvcError(error.code, error.message, {
    hint:
      truncate === true
        ? `shorten the messages that must be kept, ${longer}`
        : `shorten it, ${longer}; or drop the oldest turns: "truncate": true, svc run --truncate`,
    cause: error,
  });
}

export function toLogprobs(logprobs: NonNullable<NativeOutput['logprobs']>): TokenLogprobs[] {
  return logprobs.map(({ top, ...token }) => ({ ...toLogprob(token), top: top.map(toLogprob) }));
}

function toLogprob({ bytes: latin1, logprob }: NativeLogprob): TokenLogprob {
  const bytes = Buffer.from(latin1, 'latin1');
  return { token: bytes.toString('utf8'), bytes: [...bytes], logprob };
}

const NOT_HERE = 'are not supported by local models yet';

/** Joins text parts with line breaks, like llama.cpp: no line break before the first part that is not empty. */
function toNativeMessage(
  { role, content, tool_calls = [] }: Message,
  index: number,
): { role: string; content: string } {
  const param = `messages[${String(index)}]`;
  if (tool_calls.length > 0) throw invalid(`${param}.tool_calls`, NOT_HERE);
  if (typeof content === 'string') return { role, content };
  let text = '';
  for (const part of content) {
    if (part.type !== 'text') throw invalid(`${param}.content`, 'must be text: local models do not support images yet');
    text += text === '' ? part.text : `\n${part.text}`;
  }
  return { role, content: text };
}

/** A model makes embeddings or text, never both. Throws INVALID_REQUEST, before an engine is started in vain. */
export function checkKind({ id, capabilities }: ModelRecord, wanted: 'text' | 'embeddings'): void {
  const makesEmbeddings = capabilities.includes('embedding');
  if (makesEmbeddings === (wanted === 'embeddings')) return;
  const what = makesEmbeddings ? 'is an embedding model and cannot generate text' : 'is not an embedding model';
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
  if (dimensions === undefined || info === null || dimensions === info.embeddingLength) return;
  const length = String(info.embeddingLength);
  throw invalid('dimensions', `must be ${length} or absent: the vectors of ${model.id} have ${length} numbers`);
}

/** Splits the numbers into one vector per input. REQUIRES: loaded. */
export function toVectors(flat: Float32Array, { info }: Pick<LoadedModel, 'info'>): Float32Array[] {
  const length = info?.embeddingLength ?? flat.length;
  return Array.from({ length: flat.length / length }, (_, index) =>
    flat.subarray(index * length, (index + 1) * length),
  );
}

/**
 * All timings use the daemon's clock: the engine's figures are counted back from the arrival of its last output. So
 * they include pipe and chat template, and are consistent. `arrivedAt` and `finishedAt` are performance.now().
 */
export function toFinishEvent(finish: NativeFinish, arrivedAt: number, finishedAt: number): FinishEvent {
  const { startedMs, firstTokenMs, finishedMs, outputTokens } = finish;
  const totalMs = finishedAt - arrivedAt;
  const sinceArrival = (engineMs: number): number => Math.max(0, totalMs - (finishedMs - engineMs));
  const decodingMs = firstTokenMs === null ? 0 : finishedMs - firstTokenMs;
  return {
    type: 'finish',
    reason: finish.reason,
    usage: {
      input_tokens: finish.inputTokens,
      output_tokens: outputTokens,
      cached_tokens: finish.cachedTokens,
      ...(finish.truncatedTokens === undefined ? {} : { truncated_tokens: finish.truncatedTokens }),
    },
    timings: {
      queue_ms: round(startedMs === null ? totalMs : sinceArrival(startedMs)),
      ttft_ms: firstTokenMs === null ? null : round(sinceArrival(firstTokenMs)),
      total_ms: round(totalMs),
      tokens_per_second: outputTokens < 2 || decodingMs <= 0 ? null : round(((outputTokens - 1) * 1000) / decodingMs),
    },
  };
}

function round(figure: number): number {
  return Math.round(figure * 100) / 100;
}

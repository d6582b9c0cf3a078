/**
 * Tokenizing requests and their events: the same types at every hop, like those of rerank.ts. Nothing is computed but
 * the tokens, so they need a model's file and not its weights; they are answered by the model's engine all the same.
 */
import * as v from 'valibot';
import {
  GenerateRequestSchema,
  type FinishEvent,
  type GenerateRequest,
  type StartEvent,
  type TextEvent,
} from './generate.ts';
import { LIMITS } from './limits.ts';
import { invalid, parse } from './validate.ts';

const { model, route, context_length, keep_alive_seconds, timeout_ms } = GenerateRequestSchema.entries;
const settings = { model, route, context_length, keep_alive_seconds, timeout_ms };

/** Id in a model's vocabulary. */
export const TokenSchema = v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(0x7fff_ffff));

export const TokenizeTextRequestSchema = v.object({
  ...settings,
  text: v.pipe(v.string(), v.maxBytes(LIMITS.tokenizeBytes)),
  /** true: adds BOS and EOS as far as the model requires them. Default false. */
  add_special: v.exactOptional(v.boolean()),
  /** true: text such as `<|im_end|>` becomes the control token. Default false. */
  parse_special: v.exactOptional(v.boolean()),
  /** true: reports the bytes of each token. Default false. */
  pieces: v.exactOptional(v.boolean()),
});
/** A text on its own. */
export type TokenizeTextRequest = v.InferOutput<typeof TokenizeTextRequestSchema>;

/** A text, or a conversation: it is rendered and tokenized as if it were to be answered, but never truncated. */
export type TokenizeRequest = TokenizeTextRequest | GenerateRequest;

/** True for a conversation or a raw prompt. */
export function isConversation(request: TokenizeRequest): request is GenerateRequest {
  return 'messages' in request;
}

/** Throws INVALID_REQUEST with `param`. */
export function parseTokenizeRequest(value: Readonly<Record<string, unknown>>): TokenizeTextRequest {
  return parse(TokenizeTextRequestSchema, value);
}

export const DetokenizeRequestSchema = v.object({
  ...settings,
  tokens: v.pipe(v.array(TokenSchema), v.maxLength(LIMITS.tokenIds)),
  /** true: control tokens are written as text; otherwise they are left out. Default false. */
  special: v.exactOptional(v.boolean()),
});
export type DetokenizeRequest = v.InferOutput<typeof DetokenizeRequestSchema>;

/** Throws INVALID_REQUEST with `param`. */
export function parseDetokenizeRequest(value: Readonly<Record<string, unknown>>): DetokenizeRequest {
  const { tokens } = value;
  // Counted before they are validated one by one: there may be millions.
  if (Array.isArray(tokens) && tokens.length > LIMITS.tokenIds)
    throw invalid('tokens', `must have at most ${String(LIMITS.tokenIds)} token ids`);
  return parse(DetokenizeRequestSchema, value);
}

/** All tokens of the input, once. */
export interface TokensEvent {
  readonly type: 'tokens';
  /** Ids; -1: part of a picture or sound. */
  readonly tokens: readonly number[];
  /** Only if requested: the bytes of each token, as Latin-1. They may be part of a character. */
  readonly pieces?: readonly string[];
  /** The rendered text of a conversation. */
  readonly prompt?: string;
}

/** The usage in the finish event counts the tokens of the input. */
export type TokenizeEvent = StartEvent | TokensEvent | FinishEvent;
/** One text. */
export type DetokenizeEvent = StartEvent | TextEvent | FinishEvent;

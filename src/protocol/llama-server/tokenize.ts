/** `POST /tokenize` and `/detokenize`: converts llama-server's format to our requests, and our tokens to its answers. */
import { isUtf8 } from 'node:buffer';
import * as v from 'valibot';
import { KeepAliveSchema } from '../keep-alive.ts';
import { given } from '../given.ts';
import {
  DetokenizeRequestSchema,
  parseDetokenizeRequest,
  parseTokenizeRequest,
  TokenizeTextRequestSchema,
  type DetokenizeRequest,
  type TokensEvent,
  type TokenizeTextRequest,
} from '../tokenize.ts';
import { clientFields, parse } from '../validate.ts';

const { model, route, context_length } = TokenizeTextRequestSchema.entries;
const settings = { model, route, context_length, keep_alive: KeepAliveSchema };

export const TokenizeSchema = v.object({
  ...settings,
  content: TokenizeTextRequestSchema.entries.text,
  add_special: v.exactOptional(v.boolean(), false),
  /** llama-server's default. */
  parse_special: v.exactOptional(v.boolean(), true),
  with_pieces: v.exactOptional(v.boolean(), false),
});

/** Ignores unknown fields; null means absent. Throws INVALID_REQUEST with `param`. */
export function parseTokenize(body: unknown): TokenizeTextRequest {
  const { content, add_special, parse_special, with_pieces, ...rest } = parse(TokenizeSchema, clientFields(body));
  return parseTokenizeRequest({
    text: content,
    add_special,
    parse_special,
    pieces: with_pieces,
    ...settingsOf(rest),
  });
}

export const DetokenizeSchema = v.object({ ...settings, tokens: DetokenizeRequestSchema.entries.tokens });

/** As parseTokenize. Control tokens are written as text, as llama-server does. */
export function parseDetokenize(body: unknown): DetokenizeRequest {
  const { tokens, ...fields } = clientFields(body);
  return parseDetokenizeRequest({
    ...given({ tokens }),
    special: true,
    ...settingsOf(parse(v.object(settings), fields)),
  });
}

/** A piece is a text, or a list of bytes if it is part of a character. */
export function toTokens({ tokens, pieces }: TokensEvent): object {
  if (pieces === undefined) return { tokens };
  return { tokens: tokens.map((id, index) => ({ id, piece: toPiece(pieces[index] ?? '') })) };
}

function toPiece(latin1: string): string | number[] {
  const bytes = Buffer.from(latin1, 'latin1');
  return isUtf8(bytes) ? bytes.toString('utf8') : [...bytes];
}

function settingsOf(fields: v.InferOutput<v.ObjectSchema<typeof settings, undefined>>): object {
  const { keep_alive: keep_alive_seconds, ...same } = fields;
  return { ...same, ...given({ keep_alive_seconds }) };
}

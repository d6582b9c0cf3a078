/** Tokens of a text, or of the prompt that a request to generate would have. */
import { SvcError } from '../protocol/errors.ts';
import { LIMITS } from '../protocol/limits.ts';
import type { TokensEvent } from '../protocol/tokenize.ts';
import type { EngineRequest, EngineTokenizeRequest, NativeEngine } from './addon.ts';

/** Throws INVALID_REQUEST, or REQUEST_TOO_LARGE for a prompt that does not fit into a frame. */
export async function tokensOf(
  engine: NativeEngine,
  request: EngineTokenizeRequest,
): Promise<Omit<TokensEvent, 'type'>> {
  if (!('text' in request)) return promptOf(engine, request);
  const { text, add_special: addSpecial = false, parse_special: parseSpecial = false, pieces = false } = request;
  const tokens = await engine.encode(text, { addSpecial, parseSpecial });
  return { tokens, ...(pieces ? { pieces: engine.pieces(Int32Array.from(tokens)) } : {}) };
}

async function promptOf(engine: NativeEngine, request: EngineRequest): Promise<Omit<TokensEvent, 'type'>> {
  const { prompt, tokens } = await engine.render(request);
  if (Buffer.byteLength(prompt) > LIMITS.renderedBytes || tokens.length > LIMITS.renderedBytes) {
    throw new SvcError('REQUEST_TOO_LARGE', `the rendered prompt has more than ${String(LIMITS.renderedBytes)} bytes`);
  }
  return { prompt, tokens: tokens.map((token) => Math.max(token, -1)) };
}

/** `POST /tokenize`, `/detokenize` and `/apply-template`, for clients of llama-server. */
import { Collector } from '../../../protocol/collect.ts';
import { refuseFile } from '../../../protocol/generate.ts';
import { parseDetokenize, parseTokenize, toTokens } from '../../../protocol/llama-server/tokenize.ts';
import { parseChatCompletion } from '../../../protocol/openai/chat-request.ts';
import { renamedTo } from '../../../protocol/validate.ts';
import { readJson } from '../body.ts';
import { contextOf, type Exchange } from '../exchange.ts';

export async function tokenize(exchange: Exchange): Promise<void> {
  const request = parseTokenize(await readJson(exchange));
  refuseFile(request);
  const answer = await Collector.of(exchange.services.router.tokenize(request, contextOf(exchange)));
  exchange.reply.json(200, toTokens(answer.tokens));
}

export async function detokenize(exchange: Exchange): Promise<void> {
  const request = parseDetokenize(await readJson(exchange));
  refuseFile(request);
  const answer = await Collector.of(exchange.services.router.detokenize(request, contextOf(exchange)));
  exchange.reply.json(200, { content: answer.text });
}

/** The prompt that a chat completion with the same body would have. */
export async function applyTemplate(exchange: Exchange): Promise<void> {
  const { request, names } = parseChatCompletion(await readJson(exchange));
  refuseFile(request);
  try {
    const answer = await Collector.of(exchange.services.router.tokenize(request, contextOf(exchange)));
    exchange.reply.json(200, { prompt: answer.tokens.prompt ?? '' });
  } catch (error) {
    throw renamedTo(error, names);
  }
}

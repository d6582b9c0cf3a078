/** `POST /v1/responses/input_tokens`: the number of input tokens that a response would have. Local models only. */
import { shareOf } from '../../../../protocol/caller.ts';
import { Collector } from '../../../../protocol/collect.ts';
import { refuseFile } from '../../../../protocol/generate.ts';
import { inTheirWords, parseResponses } from '../../../../protocol/openai/responses/request.ts';
import { readJson } from '../../body.ts';
import { contextOf, type Exchange } from '../../exchange.ts';
import { withErrors } from '../../with-errors.ts';
import { conversationOf } from './conversation.ts';

export async function countInputTokens(exchange: Exchange): Promise<void> {
  const call = parseResponses(await readJson(exchange));
  refuseFile(call.request);
  const context = contextOf(exchange);
  const { messages, places } = await conversationOf(exchange, call, shareOf(context.caller));
  const { services, reply } = exchange;
  const events = withErrors(services.router.tokenize({ ...call.request, messages }, context), (error) =>
    inTheirWords(error, call, places),
  );
  const { finish } = await Collector.of(events);
  reply.json(200, { object: 'response.input_tokens', input_tokens: finish.usage?.input_tokens ?? null });
}

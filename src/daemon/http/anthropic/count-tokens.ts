/** `POST /v1/messages/count_tokens` in Anthropic's format. */
import { parseCountTokens } from '../../../protocol/anthropic/messages-request.ts';
import { inTheirNames } from '../../../protocol/anthropic/names.ts';
import { Collector } from '../../../protocol/collect.ts';
import { refuseFile } from '../../../protocol/generate.ts';
import { readJson } from '../body.ts';
import { contextOf, type Exchange } from '../exchange.ts';
import { withErrors } from '../with-errors.ts';

export async function countTokens(exchange: Exchange): Promise<void> {
  const { request, places } = parseCountTokens(await readJson(exchange));
  refuseFile(request);
  const { reply, services } = exchange;
  const events = withErrors(services.router.tokenize(request, contextOf(exchange)), (error) =>
    inTheirNames(error, places),
  );
  const { finish, tokens } = await Collector.of(events);
  reply.json(200, { input_tokens: finish.usage?.input_tokens ?? tokens.tokens.length });
}

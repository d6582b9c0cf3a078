/** Routes of stored responses: `GET` and `DELETE /v1/responses/ID`, its input items, and its cancellation. */
import { shareOf } from '../../../../protocol/caller.ts';
import { SvcError } from '../../../../protocol/errors.ts';
import { parseItemsQuery, toItemList } from '../../../../protocol/openai/responses/item-list.ts';
import type { StoredResponse } from '../../../../protocol/openai/responses/response.ts';
import { invalid } from '../../../../protocol/validate.ts';
import { parseStreamQuery } from '../../../../protocol/openai/responses/stream-query.ts';
import type { Services } from '../../../services.ts';
import { contextOf, type Exchange } from '../../exchange.ts';
import { streamResponse } from './background.ts';
import { countStored } from './conversation.ts';

export async function showResponse(exchange: Exchange): Promise<void> {
  if (parseStreamQuery(exchange.query).stream) {
    if (await streamResponse(exchange)) return;
    const { response } = await storedOf(exchange);
    if (response['background'] === true) {
      throw new SvcError('NOT_FOUND', 'the events of this response were too large to be stored', {
        hint: 'request it without stream: its status is stored, and its output if there was room',
      });
    }
    throw invalid('stream', 'is only for responses that were created with background: true');
  }
  const run = await runningOf(exchange);
  exchange.reply.json(200, run?.response ?? (await storedOf(exchange)).response);
}

/** A running response is cancelled first. */
export async function deleteResponse(exchange: Exchange): Promise<void> {
  const { param: id, services, reply } = exchange;
  await (await runningOf(exchange))?.cancel();
  await countStored(exchange, id);
  if (!(await services.responses.remove(id, shareOf(contextOf(exchange).caller)))) throw notFound();
  reply.json(200, { id, object: 'response', deleted: true });
}

export async function listInputItems(exchange: Exchange): Promise<void> {
  const query = parseItemsQuery(exchange.query);
  const run = await runningOf(exchange);
  const { input, has_items } = run?.record ?? (await storedOf(exchange));
  if (has_items === false) throw new SvcError('NOT_FOUND', 'the items of this response were too large to be stored');
  exchange.reply.json(200, toItemList(input, query));
}

/**
 * Only background responses can be cancelled; the others end with their connection. An ended one does not change.
 */
export async function cancelResponse(exchange: Exchange): Promise<void> {
  const run = await runningOf(exchange);
  await run?.cancel();
  const response = run?.response ?? (await storedOf(exchange)).response;
  if (response['background'] === true) {
    exchange.reply.json(200, response);
    return;
  }
  throw new SvcError('INVALID_REQUEST', 'only a response with background: true can be cancelled', {
    hint: 'close the connection of a response to stop it',
  });
}

/** null: the client has no such response, or it has ended. */
async function runningOf(exchange: Exchange): ReturnType<Services['background']['running']> {
  const { param: id, services } = exchange;
  return await services.background.running(id, shareOf(contextOf(exchange).caller));
}

/** Throws NOT_FOUND, also for a response of another client; BUSY if it is too large for now. */
async function storedOf(exchange: Exchange): Promise<StoredResponse> {
  const { param: id, services } = exchange;
  await countStored(exchange, id);
  return (await services.responses.find(id, shareOf(contextOf(exchange).caller))) ?? refuse();
}

function refuse(): never {
  throw notFound();
}

function notFound(): SvcError {
  return new SvcError('NOT_FOUND', 'no response with this id is stored', {
    hint: 'it may have expired, been made with store: false, or belong to another API key',
  });
}

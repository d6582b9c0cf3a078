/** `GET /v1/models` and `GET /v1/models/ID`, in OpenAI's shape. */
import { SvcError } from '../../../protocol/errors.ts';
import { given } from '../../../protocol/given.ts';
import { listedNamed, type ListedModel } from '../../../protocol/model/listed.ts';
import { toModel } from '../../../protocol/openai/model.ts';
import { listedFor } from '../../withhold.ts';
import { contextOf, type Exchange } from '../exchange.ts';

export async function listModels(exchange: Exchange): Promise<void> {
  exchange.reply.json(200, { object: 'list', data: (await listedModels(exchange)).map(toModel) });
}

export async function showModel(exchange: Exchange): Promise<void> {
  exchange.reply.json(200, toModel(await findModel(exchange)));
}

/** The names that the caller may use as the model of a request. */
export async function listedModels(exchange: Exchange): Promise<readonly ListedModel[]> {
  const { caller } = contextOf(exchange);
  return listedFor(await exchange.services.listed(caller.scope), caller);
}

/** The model that the path names. Throws MODEL_NOT_FOUND. */
export async function findModel(exchange: Exchange): Promise<ListedModel> {
  return await listedModel(exchange, exchange.param);
}

/** `name`: as in listedNamed. `field`: where the request has it, for the error. Throws MODEL_NOT_FOUND. */
export async function listedModel(exchange: Exchange, name: string, field?: string): Promise<ListedModel> {
  const found = listedNamed(name, await listedModels(exchange));
  if (found !== undefined) return found;
  throw new SvcError('MODEL_NOT_FOUND', `no model is named '${name}'`, {
    hint: 'see GET /v1/models or `svc model list`',
    ...given({ param: field }),
  });
}

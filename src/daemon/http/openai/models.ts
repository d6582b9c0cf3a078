/** `GET /v1/models` and `GET /v1/models/ID`, in OpenAI's shape. */
import { SvcError } from '../../../protocol/errors.ts';
import { given } from '../../../protocol/given.ts';
import type { ModelRecord } from '../../../protocol/records.ts';
import { toModel } from '../../../protocol/openai/chat-response.ts';
import type { Services } from '../../services.ts';
import type { Exchange } from '../exchange.ts';

export async function listModels({ services, reply }: Exchange): Promise<void> {
  const records = await services.models();
  reply.json(200, { object: 'list', data: records.map(toModel) });
}

export async function showModel(exchange: Exchange): Promise<void> {
  exchange.reply.json(200, toModel(await findModel(exchange)));
}

/** The model that the path names. Throws MODEL_NOT_FOUND. */
export async function findModel({ param, services }: Exchange): Promise<ModelRecord> {
  return await installedModel(param, services);
}

/** `name`: as in modelNamed. `field`: where the request has it, for the error. Throws MODEL_NOT_FOUND. */
export async function installedModel(name: string, services: Services, field?: string): Promise<ModelRecord> {
  const found = modelNamed(name, await services.models());
  if (found !== undefined) return found;
  throw new SvcError('MODEL_NOT_FOUND', `no model is named '${name}'`, {
    hint: 'see GET /v1/models or `svc model list`',
    ...given({ param: field }),
  });
}

/** `name`: id, alias or `default`. */
export function modelNamed(name: string, records: readonly ModelRecord[]): ModelRecord | undefined {
  return records.find(
    (record) => record.id === name || record.aliases.includes(name) || (name === 'default' && record.default),
  );
}

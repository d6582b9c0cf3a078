/** `GET /v1/models` and `GET /v1/models/ID` in Anthropic's shape. */
import { toModelInfo, toModelPage } from '../../../protocol/anthropic/model-info.ts';
import type { Exchange } from '../exchange.ts';
import { findModel, listedModels } from '../openai/models.ts';

export async function listModels(exchange: Exchange): Promise<void> {
  exchange.reply.json(200, toModelPage(await listedModels(exchange), exchange.query));
}

export async function showModel(exchange: Exchange): Promise<void> {
  exchange.reply.json(200, toModelInfo(await findModel(exchange)));
}

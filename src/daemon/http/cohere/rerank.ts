/** `POST /v1/rerank`, `/v2/rerank` and `/rerank`, for clients of Cohere, Jina and llama-server. */
import { parseRerank, rerankAnswer } from '../../../protocol/cohere/rerank.ts';
import { Collector } from '../../../protocol/collect.ts';
import { refuseFile } from '../../../protocol/generate.ts';
import { renamed } from '../../../protocol/validate.ts';
import { readJson } from '../body.ts';
import { contextOf, type Exchange, type Handler } from '../exchange.ts';

/** `version`: that of Cohere's API which the answer names. */
export function rerank(version: '1' | '2'): Handler {
  return async (exchange: Exchange): Promise<void> => {
    const call = parseRerank(await readJson(exchange));
    refuseFile(call.request);
    const { reply, services, id } = exchange;
    try {
      const answer = await Collector.of(services.router.rerank(call.request, contextOf(exchange)));
      reply.json(200, rerankAnswer(id, answer, call, version));
    } catch (error) {
      throw renamed(error, 'max_document_tokens', 'max_tokens_per_doc');
    }
  };
}

/** `GET /health` and `GET /props`, for clients of llama-server. */
import { toProps } from '../../../protocol/llama-server/props.ts';
import { DEFAULT_NAME } from '../../../protocol/model/named.ts';
import type { Exchange } from '../exchange.ts';
import { listedModel } from '../openai/models.ts';

/** Readiness, like `/readyz`, in llama-server's two bodies. */
export function llamaHealth({ reply, services }: Exchange): void {
  reply.setHeader('cache-control', 'no-store');
  if (services.ready().status === 'ready') {
    reply.json(200, { status: 'ok' });
    return;
  }
  reply.setHeader('retry-after', '1');
  reply.json(503, { error: { code: 503, message: 'svc is not ready', type: 'unavailable_error' } });
}

/** `?model=NAME`: another model than the default one. */
export async function props(exchange: Exchange): Promise<void> {
  const { query, reply, services } = exchange;
  const name = query.get('model') ?? '';
  const model = await listedModel(exchange, name === '' ? DEFAULT_NAME : name, 'model');
  const { version } = services.health();
  const defaults = model.record === null ? null : await services.shelf.defaultsOf(model.record);
  reply.json(200, toProps(model, defaults, { slots: services.slots, version }));
}

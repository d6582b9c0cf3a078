/** `GET /metrics`, for Prometheus. */
import type { Exchange } from './exchange.ts';

export async function metrics({ services, reply, caller }: Exchange): Promise<void> {
  const { contentType, text } = await services.metrics.page(caller?.scope ?? 'local');
  reply.setHeader('cache-control', 'no-store');
  reply.text(200, text, contentType);
}

/** svc.v1.Runtime: the records of the other listeners, as messages of the same names. */
import { once } from 'node:events';
import { SvcError } from '../../protocol/errors.ts';
import { healthFor } from '../withhold.ts';
import type { Services } from '../services.ts';
import type { Calls, StreamCall, StreamHandler, UnaryHandler } from './calls.ts';

export function runtime(calls: Calls, services: Services): Record<string, UnaryHandler | StreamHandler> {
  return {
    GetHealth: calls.unary(({ caller }) => healthFor(services.health(), caller)),
    WatchHealth: calls.stream((call) => watchHealth(call, services, calls.closing)),
    ListModels: calls.unary(async () => ({ models: await services.models() })),
    ListProviders: calls.unary(() => ({ providers: services.providers() })),
  };
}

/** What happens while a reader is slow is told by the record after it: nothing is kept for them. */
async function watchHealth(
  { write, signal, caller }: StreamCall,
  services: Services,
  closing: AbortSignal,
): Promise<void> {
  const { healthFeed } = services;
  const news = new EventTarget();
  let told = -1;
  const unsubscribe = healthFeed.subscribe(() => news.dispatchEvent(new Event('news')));
  const over = AbortSignal.any([signal, closing]);
  try {
    for (;;) {
      if (told !== healthFeed.sequence) {
        told = healthFeed.sequence;
        await write({ sequence: told, health: healthFor(services.health(), caller) });
      } else {
        await once(news, 'news', { signal: over });
      }
    }
  } catch (error) {
    // Leaving is how a watch ends.
    if (signal.aborted) return;
    throw closing.aborted ? SvcError.from(closing.reason) : error;
  } finally {
    unsubscribe();
  }
}

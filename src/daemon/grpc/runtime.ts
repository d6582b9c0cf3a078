/** svc.v1.Runtime: the records of the other listeners, as messages with the same field names. */
import { once } from 'node:events';
import { SvcError } from '../../protocol/errors.ts';
import { healthFor, modelsFor } from '../withhold.ts';
import type { Services } from '../services.ts';
import type { Calls, StreamCall, StreamHandler, UnaryHandler } from './calls.ts';

export function runtime(calls: Calls, services: Services): Record<string, UnaryHandler | StreamHandler> {
  return {
    GetHealth: calls.unary(({ caller }) => healthFor(services.health(), caller)),
    WatchHealth: calls.stream((call) => watchHealth(call, services, calls.closing)),
    ListModels: calls.unary(async ({ caller }) => ({ models: modelsFor(await services.models(), caller) })),
    ListProviders: calls.unary(() => ({ providers: services.providers() })),
  };
}

/** Sends the health record after each change. A slow reader gets only the newest record; changes are not queued. */
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
    // A watch ends when the client cancels it.
    if (signal.aborted) return;
    throw closing.aborted ? SvcError.from(closing.reason) : error;
  } finally {
    unsubscribe();
  }
}

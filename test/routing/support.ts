/** Helpers for router tests: requests and their outcome. */
import type { GenerateContext } from '../../src/backends/backend.ts';
import { CONTROL_CALLER } from '../../src/protocol/caller.ts';
import type { SvcError } from '../../src/protocol/errors.ts';
import type { GenerateEvent, GenerateRequest, RouteEvent } from '../../src/protocol/generate.ts';

export const REQUEST: GenerateRequest = { messages: [{ role: 'user', content: 'hi' }], sampling: {}, stop: [] };

export function context(signal: AbortSignal = new AbortController().signal): GenerateContext {
  return { traceId: 'trace', caller: CONTROL_CALLER, signal, arrivedAt: performance.now() };
}

export async function collect(
  events: AsyncIterable<RouteEvent | GenerateEvent>,
): Promise<(RouteEvent | GenerateEvent)[]> {
  const all: (RouteEvent | GenerateEvent)[] = [];
  for await (const event of events) all.push(event);
  return all;
}

export async function failure(events: AsyncIterable<unknown>): Promise<SvcError> {
  try {
    for await (const _ of events);
  } catch (error) {
    return error as SvcError;
  }
  throw new Error('it did not fail');
}

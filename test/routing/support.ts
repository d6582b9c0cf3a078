/** Helpers for router tests: requests and their outcome, and routers over scripted providers. */
import type { GenerateContext } from '../../src/backends/backend.ts';
import { CONTROL_CALLER } from '../../src/protocol/caller.ts';
import type { SvcError } from '../../src/protocol/errors.ts';
import type { GenerateEvent, GenerateRequest, RouteEvent } from '../../src/protocol/generate.ts';
import type { Policies } from '../../src/routing/policy.ts';
import { Router, type Outcome } from '../../src/routing/router.ts';
import { LOCAL, ScriptedBackend, type Script } from '../http/scripted.ts';

export const REQUEST: GenerateRequest = { messages: [{ role: 'user', content: 'hi' }], sampling: {}, stop: [] };
export const TO_A: GenerateRequest = { ...REQUEST, route: 'provider:a' };

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

/** A policy of two providers that falls back on everything. */
export const ALL: Policies = {
  default: {
    candidates: ['a/one', 'b'],
    fallback_on: ['unavailable', 'overloaded', 'context_too_long', 'model_missing'],
  },
};

export const provider = (name: string, script: Script): ScriptedBackend =>
  new ScriptedBackend(script, { ...LOCAL, name, kind: 'openai' });

export const fails = (error: () => SvcError): Script =>
  async function* () {
    throw error();
  };

/** A router over `backends`, and the outcomes that it reports. */
export function make(policies: Policies, ...backends: ScriptedBackend[]): { router: Router; outcomes: Outcome[] } {
  const outcomes: Outcome[] = [];
  const router = new Router(new Map(backends.map((one) => [one.name, one])), { policies: () => policies });
  router.observe((outcome) => {
    outcomes.push(outcome);
    return Promise.resolve();
  });
  return { router, outcomes };
}

/**
 * Client of the daemon's control socket, with one method per route. An error of the daemon is rethrown as the SvcError
 * that it was there. DAEMON_NOT_RUNNING: no daemon; NOT_READY: it does not answer in time.
 */
import { SvcError } from '../protocol/errors.ts';
import type { GenerateEvent, GenerateRequest, RouteEvent } from '../protocol/generate.ts';
import type { Model } from '../protocol/openai/model.ts';
import type { HealthRecord, ModelRecord, ProviderRecord, ReadyRecord, StatusRecord } from '../protocol/records.ts';
import {
  CONTROL_ROUTES,
  HTTP_ROUTES,
  type ControlEvent,
  type ErrorEvent,
  type LoadEvent,
  type LoadWishes,
  type ProviderTestEvent,
  type ProviderTestStep,
  type PullEvent,
  type PullRequest,
  type ReloadRecord,
} from '../protocol/routes.ts';
import { fetchJson, streamJson, type RequestOptions } from './request.ts';

/** Timeout of requests that the daemon answers by itself. */
const ANSWER_MS = 5000;
/** Timeout of requests that a provider answers. */
const PROVIDER_MS = 120_000;
/** Timeout of an unload, which waits for a process to end. */
const UNLOAD_MS = 60_000;

export class Client {
  readonly #target: { readonly socketPath: string };

  constructor(socketPath: string) {
    this.#target = { socketPath };
  }

  async ready(timeoutMs: number = ANSWER_MS): Promise<ReadyRecord> {
    return await this.#ask<ReadyRecord>({ path: HTTP_ROUTES.readyz, timeoutMs }, [503]);
  }

  async health(): Promise<HealthRecord> {
    return await this.#ask<HealthRecord>({ path: HTTP_ROUTES.health }, [503]);
  }

  async status(): Promise<StatusRecord> {
    return await this.#ask<StatusRecord>({ path: CONTROL_ROUTES.status });
  }

  async models(): Promise<readonly ModelRecord[]> {
    return (await this.#ask<{ models: readonly ModelRecord[] }>({ path: CONTROL_ROUTES.models })).models;
  }

  /** Returns everything that requests may name as their model: local models, providers' default models, policies. */
  async listed(): Promise<readonly Model[]> {
    return (await this.#ask<{ data: readonly Model[] }>({ path: HTTP_ROUTES.models })).data;
  }

  async providers(): Promise<readonly ProviderRecord[]> {
    return (await this.#ask<{ providers: readonly ProviderRecord[] }>({ path: CONTROL_ROUTES.providers })).providers;
  }

  /** Returns the provider's models; the daemon asks the provider. */
  async providerModels(provider: string): Promise<readonly string[]> {
    const options = { method: 'POST', path: CONTROL_ROUTES.providerModels, body: { provider } } as const;
    return (await this.#ask<{ models: readonly string[] }>({ ...options, timeoutMs: PROVIDER_MS })).models;
  }

  /** Yields the steps of a test that the daemon runs. */
  async *testProvider(provider: string, signal: AbortSignal): AsyncGenerator<ProviderTestStep, void, undefined> {
    const events = this.#events<ProviderTestEvent>(CONTROL_ROUTES.providerTest, { provider }, 'tested', signal);
    for await (const event of events) {
      if (event.type !== 'step') continue;
      const { type: _type, ...step } = event;
      yield step;
    }
  }

  /** Gives the daemon a key that it keeps in memory until it ends. */
  async lendKey(provider: string, key: string): Promise<void> {
    await this.#ask({ method: 'POST', path: CONTROL_ROUTES.providerKey, body: { provider, key } });
  }

  /** Makes the daemon read its config again. */
  async reload(): Promise<ReloadRecord> {
    return await this.#ask<ReloadRecord>({ method: 'POST', path: CONTROL_ROUTES.reload, body: {} });
  }

  /** Resolves when the daemon has begun to drain. */
  async stop(drainTimeoutMs: number): Promise<void> {
    const body = { drain_timeout_ms: drainTimeoutMs };
    await this.#ask({ method: 'POST', path: CONTROL_ROUTES.stop, body });
  }

  async unload(model: string): Promise<void> {
    await this.#ask({ method: 'POST', path: CONTROL_ROUTES.unload, body: { model }, timeoutMs: UNLOAD_MS });
  }

  /** Ends after `loaded`. Ending the iteration early, or aborting, cancels the load. */
  async *load(
    model: string,
    signal: AbortSignal,
    wishes: LoadWishes = {},
  ): AsyncGenerator<Exclude<LoadEvent, ErrorEvent>, void, undefined> {
    yield* this.#events<LoadEvent>(CONTROL_ROUTES.load, { model, ...wishes }, 'loaded', signal);
  }

  /** Ends after `pulled`. Ending the iteration early, or aborting, pauses the pull unless other clients wait for it. */
  async *pull(
    request: PullRequest,
    signal: AbortSignal,
  ): AsyncGenerator<Exclude<PullEvent, ErrorEvent>, void, undefined> {
    yield* this.#events<PullEvent>(CONTROL_ROUTES.pull, request, 'pulled', signal);
  }

  /** Ends after `finish`. Ending the iteration early, or aborting, stops the generation in the engine. */
  async *generate(
    request: GenerateRequest,
    signal: AbortSignal,
  ): AsyncGenerator<RouteEvent | GenerateEvent, void, undefined> {
    yield* this.#events<ControlEvent>(CONTROL_ROUTES.generate, request, 'finish', signal);
  }

  async #ask<Answer>(options: RequestOptions, accept: readonly number[] = []): Promise<Answer> {
    return (await fetchJson(this.#target, { timeoutMs: ANSWER_MS, ...options }, accept)).body as Answer;
  }

  async *#events<Event extends { readonly type: string }>(
    path: string,
    body: unknown,
    last: Event['type'],
    signal: AbortSignal,
  ): AsyncGenerator<Exclude<Event, ErrorEvent>, void, undefined> {
    let complete = false;
    for await (const value of streamJson(this.#target, { method: 'POST', path, body, signal })) {
      const event = value as Event | ErrorEvent;
      if (isError(event)) throw revive(event);
      yield event as Exclude<Event, ErrorEvent>;
      complete ||= event.type === last;
    }
    if (!complete) {
      throw new SvcError('DAEMON_NOT_RUNNING', 'the daemon went away before its answer was complete', {
        hint: 'see `svc logs` for the reason',
      });
    }
  }
}

function isError(event: { readonly type: string }): event is ErrorEvent {
  return event.type === 'error';
}

/** Rebuilds the SvcError of an event. Details of an internal error are only in the log, under its id. */
function revive(event: ErrorEvent): SvcError {
  const { error, id } = event;
  return SvcError.fromRecord(
    error.code === 'INTERNAL' ? { ...error, hint: `\`svc logs\` has the details under ${id}` } : error,
  );
}

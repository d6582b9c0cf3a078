/**
 * Client of the control socket, for the CLI: beside the client's own methods, one for each of the daemon's commands.
 */
import type { ConsoleLink } from '../protocol/console.ts';
import type { Model } from '../protocol/openai/model.ts';
import type { ProviderRecord, ReadyRecord, StatusRecord } from '../protocol/records.ts';
import {
  CONTROL_ROUTES,
  HTTP_ROUTES,
  type ErrorEvent,
  type LoadEvent,
  type LoadWishes,
  type ProviderTestEvent,
  type ProviderTestStep,
  type PullEvent,
  type PullRequest,
  type ReloadRecord,
} from '../protocol/routes.ts';
import { Client } from './client.ts';
import { Connection } from './connection.ts';

/** Timeout of requests that a provider answers. */
const PROVIDER_MS = 120_000;
/** Timeout of an unload, which waits for a process to end. */
const UNLOAD_MS = 60_000;

export class ControlClient extends Client {
  readonly #connection: Connection;

  constructor(socketPath: string) {
    super({ socketPath });
    this.#connection = new Connection({ socketPath });
  }

  /** `timeoutMs`: absent as for other requests. */
  async ready(timeoutMs?: number): Promise<ReadyRecord> {
    return await this.#connection.ask<ReadyRecord>(
      { path: HTTP_ROUTES.readyz, ...(timeoutMs === undefined ? {} : { timeoutMs }) },
      [503],
    );
  }

  async status(): Promise<StatusRecord> {
    return await this.#connection.ask<StatusRecord>({ path: CONTROL_ROUTES.status });
  }

  /**
   * Resolves with everything that requests may name as their model: local models, providers' default models, policies.
   */
  async listed(): Promise<readonly Model[]> {
    return (await this.#connection.ask<{ data: readonly Model[] }>({ path: HTTP_ROUTES.models })).data;
  }

  async providers(): Promise<readonly ProviderRecord[]> {
    const { providers } = await this.#connection.ask<{ providers: readonly ProviderRecord[] }>({
      path: CONTROL_ROUTES.providers,
    });
    return providers;
  }

  /** Returns the provider's models; the daemon asks the provider. */
  async providerModels(provider: string): Promise<readonly string[]> {
    const options = { method: 'POST', path: CONTROL_ROUTES.providerModels, body: { provider } } as const;
    const { models } = await this.#connection.ask<{ models: readonly string[] }>({
      ...options,
      timeoutMs: PROVIDER_MS,
    });
    return models;
  }

  /** Yields the steps of a test that the daemon runs. */
  async *testProvider(provider: string, signal: AbortSignal): AsyncGenerator<ProviderTestStep, void, undefined> {
    const request = { path: CONTROL_ROUTES.providerTest, body: { provider }, signal };
    for await (const event of this.#connection.events<ProviderTestEvent>(request, 'tested')) {
      if (event.type !== 'step') continue;
      const { type: _type, ...step } = event;
      yield step;
    }
  }

  /** Gives the daemon a key that it keeps in memory until it ends. */
  async lendKey(provider: string, key: string): Promise<void> {
    await this.#connection.ask({ method: 'POST', path: CONTROL_ROUTES.providerKey, body: { provider, key } });
  }

  /** Makes a link that signs a browser in to the console. `file`: also a file that leads there (ConsoleLink.file). */
  async consoleLink(file: boolean): Promise<ConsoleLink> {
    const options = { method: 'POST', path: CONTROL_ROUTES.consoleLink, body: { file } } as const;
    return await this.#connection.ask<ConsoleLink>(options);
  }

  /** Makes the daemon read its config again. */
  async reload(): Promise<ReloadRecord> {
    return await this.#connection.ask<ReloadRecord>({ method: 'POST', path: CONTROL_ROUTES.reload, body: {} });
  }

  /** Resolves when the daemon has begun to drain. */
  async stop(drainTimeoutMs: number): Promise<void> {
    const body = { drain_timeout_ms: drainTimeoutMs };
    await this.#connection.ask({ method: 'POST', path: CONTROL_ROUTES.stop, body });
  }

  async unload(model: string): Promise<void> {
    const options = { method: 'POST', path: CONTROL_ROUTES.unload, body: { model } } as const;
    await this.#connection.ask({ ...options, timeoutMs: UNLOAD_MS });
  }

  /** Ends after `loaded`. Ending the iteration early, or aborting, cancels the load. */
  async *load(
    model: string,
    signal: AbortSignal,
    wishes: LoadWishes = {},
  ): AsyncGenerator<Exclude<LoadEvent, ErrorEvent>, void, undefined> {
    const request = { path: CONTROL_ROUTES.load, body: { model, ...wishes }, signal };
    yield* this.#connection.events<LoadEvent>(request, 'loaded');
  }

  /** Ends after `pulled`. Ending the iteration early, or aborting, pauses the pull unless other clients wait for it. */
  async *pull(
    request: PullRequest,
    signal: AbortSignal,
  ): AsyncGenerator<Exclude<PullEvent, ErrorEvent>, void, undefined> {
    yield* this.#connection.events<PullEvent>({ path: CONTROL_ROUTES.pull, body: request, signal }, 'pulled');
  }
}

/**
 * The providers of the running daemon: made from the config when it starts, made anew when the config
 * or the keys have changed. One that is unchanged is left alone with all that runs on it; one that is
 * replaced ends when its last answer does.
 */
import type { Backend } from '../backends/backend.ts';
import type { Provider } from '../backends/cloud/provider.ts';
import type { Config } from '../config/config.ts';
import type { Logger } from '../log/log.ts';
import { SvcError } from '../protocol/errors.ts';
import type { CheckStatus, ProviderRecord } from '../protocol/records.ts';
import type { ProviderTestStep } from '../protocol/routes.ts';
import type { ProviderKeys } from '../providers/provider-keys.ts';
import { testProvider } from '../providers/provider-test.ts';
import { lacksKey, providerNamed, providersInUse } from '../providers/providers.ts';
import type { Policies } from '../routing/policy.ts';
import type { Budget } from '../usage/budgets.ts';
import { inBackground } from './in-background.ts';

export interface CloudProvidersOptions {
  readonly keys: ProviderKeys;
  /** What routing sees: providers are put in and taken out, whatever else is in it stays. */
  readonly backends: Map<string, Backend>;
  readonly connect: (provider: Provider) => Backend;
  readonly log: Logger;
}

interface Connected {
  readonly provider: Provider;
  readonly backend: Backend;
}

export class CloudProviders {
  readonly #options: CloudProvidersOptions;
  readonly #connected = new Map<string, Connected>();
  readonly #retiring = new Set<Backend>();
  #config: Config | undefined;

  constructor(options: CloudProvidersOptions) {
    this.#options = options;
  }

  /** From now on these are the providers. */
  apply(config: Config): void {
    const { keys, backends, connect, log } = this.#options;
    this.#config = config;
    const wanted = new Map(providersInUse(config, keys).map((provider) => [provider.name, provider]));
    for (const [name, { backend }] of this.#connected) {
      if (wanted.has(name)) continue;
      this.#connected.delete(name);
      backends.delete(name);
      this.#retire(backend);
      log.info({ provider: name }, 'provider taken out');
    }
    for (const [name, provider] of wanted) {
      const before = this.#connected.get(name);
      if (before !== undefined && isSame(before, provider)) continue;
      const backend = connect(provider);
      this.#connected.set(name, { provider, backend });
      backends.set(name, backend);
      if (before !== undefined) this.#retire(before.backend);
      log.info({ provider: name, kind: provider.kind }, before === undefined ? 'provider added' : 'provider changed');
    }
  }

  /** A key for this run of the daemon, kept nowhere. Throws NOT_FOUND. */
  lend(name: string, key: string): void {
    this.#named(name);
    this.#options.keys.lend(name, key);
    if (this.#config !== undefined) this.apply(this.#config);
  }

  /** Asks the provider, configured or not. Throws NOT_FOUND, and what the provider says. */
  async models(name: string, signal: AbortSignal): Promise<readonly string[]> {
    return await this.#with(name, (_, backend) => backend.modelNames(signal));
  }

  /** Never throws but NOT_FOUND: what is wrong is in the steps. */
  async *test(name: string, signal: AbortSignal): AsyncGenerator<ProviderTestStep, void> {
    const connected = this.#connected.get(name);
    const { provider, backend } = connected ?? this.#unconfigured(name);
    try {
      yield* testProvider(provider, backend, signal);
    } finally {
      if (connected === undefined) await backend.close();
    }
  }

  /** What the config says of several candidates. */
  get policies(): Policies {
    return this.#config?.policies ?? {};
  }

  /** What the config allows it in a day. */
  budgetOf(name: string): Budget {
    const { requests_per_day = null, tokens_per_day = null } = this.#config?.providers[name] ?? {};
    return { requestsPerDay: requests_per_day, tokensPerDay: tokens_per_day };
  }

  /** Those that were replaced and still answer somebody. */
  get retiring(): readonly Backend[] {
    return [...this.#retiring];
  }

  #retire(backend: Backend): void {
    this.#retiring.add(backend);
    const closed = backend.close().finally(() => this.#retiring.delete(backend));
    inBackground(this.#options.log, 'closing a provider', closed);
  }

  async #with<Result>(name: string, ask: (provider: Provider, backend: Backend) => Promise<Result>): Promise<Result> {
    const connected = this.#connected.get(name);
    if (connected !== undefined) return await ask(connected.provider, connected.backend);
    const { provider, backend } = this.#unconfigured(name);
    try {
      return await ask(provider, backend);
    } finally {
      await backend.close();
    }
  }

  /** One of the catalogue, for this once; the caller closes it. */
  #unconfigured(name: string): { provider: Provider; backend: Backend } {
    const provider = this.#named(name);
    return { provider, backend: this.#options.connect(provider) };
  }

  #named(name: string): Provider {
    const { keys } = this.#options;
    const provider = this.#config && providerNamed(name, this.#config, keys);
    if (provider !== undefined) return provider;
    throw new SvcError('NOT_FOUND', `no provider is named '${name}'`, { hint: 'see `svc provider list --all`' });
  }
}

/** What the condition `providers` says. */
export function conditionOf(all: readonly ProviderRecord[]): { status: CheckStatus; reason: string } {
  const providers = all.filter(({ kind, enabled }) => kind !== 'local' && enabled);
  if (providers.length === 0) return { status: 'ok', reason: 'none configured' };
  const troubles = providers.flatMap((record) => {
    if (lacksKey(record)) return [`${record.name}: no key`];
    return record.state === 'unhealthy' ? [`${record.name}: ${record.last_error ?? 'it does not answer'}`] : [];
  });
  if (troubles.length > 0) return { status: 'warn', reason: troubles.join('; ') };
  return { status: 'ok', reason: providers.map(({ name }) => name).join(', ') };
}

/** What failed before the config or a key was changed is no news of what is there now. */
function isSame({ provider: before, backend }: Connected, provider: Provider): boolean {
  // Its functions follow from the rest.
  return JSON.stringify(before) === JSON.stringify(provider) && backend.record().state !== 'unhealthy';
}

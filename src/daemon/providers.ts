/**
 * The providers of the running daemon: created from the config at its start, and again when the config or the keys
 * change. An unchanged provider keeps its backend and its requests; a replaced one closes after its last answer.
 */
import type { Backend } from '../backends/backend.ts';
import type { Provider } from '../backends/cloud/provider.ts';
import type { Config } from '../config/config.ts';
import type { Logger } from '../log/log.ts';
import { SvcError } from '../protocol/errors.ts';
import type { CheckStatus, ProviderHealth, ProviderRecord } from '../protocol/records.ts';
import type { ProviderTestStep } from '../protocol/routes.ts';
import type { ProviderKeys } from '../providers/provider-keys.ts';
import { testProvider } from '../providers/provider-test.ts';
import { lacksKey, providerNamed, providersInUse } from '../providers/providers.ts';
import type { Policies } from '../routing/policy.ts';
import type { Budget } from '../usage/budgets.ts';
import { inBackground } from './in-background.ts';

export interface CloudProvidersOptions {
  readonly keys: ProviderKeys;
  /** The router's map: providers are added and removed; other entries stay. */
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

  /** Replaces the providers by those of `config`. */
  apply(config: Config): void {
    const { keys, backends, connect, log } = this.#options;
    this.#config = config;
    const wanted = new Map(providersInUse(config, keys).map((provider) => [provider.name, provider]));
    for (const [name, { backend }] of this.#connected) {
      if (wanted.has(name)) continue;
      this.#connected.delete(name);
      backends.delete(name);
      this.#retire(backend);
      log.info({ provider: name }, 'provider removed');
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

  /** Uses `key` until the daemon ends; it is never written to disk. Throws NOT_FOUND. */
  lend(name: string, key: string): void {
    this.#named(name);
    this.#options.keys.lend(name, key);
    if (this.#config !== undefined) this.apply(this.#config);
  }

  /** Asks a provider, configured or not, for its models. Throws NOT_FOUND, or the provider's error. */
  async models(name: string, signal: AbortSignal): Promise<readonly string[]> {
    const connected = this.#connected.get(name);
    const { backend } = connected ?? this.#unconfigured(name);
    try {
      return await backend.modelNames(signal);
    } finally {
      if (connected === undefined) await backend.close();
    }
  }

  /** Tests a provider; failures are in the steps. Throws NOT_FOUND only. */
  async *test(name: string, signal: AbortSignal): AsyncGenerator<ProviderTestStep, void> {
    const connected = this.#connected.get(name);
    const { provider, backend } = connected ?? this.#unconfigured(name);
    try {
      yield* testProvider(provider, backend, signal);
    } finally {
      if (connected === undefined) await backend.close();
    }
  }

  /** Routing policies of the config. */
  get policies(): Policies {
    return this.#config?.policies ?? {};
  }

  /** Daily budget of the provider by the config. */
  budgetOf(name: string): Budget {
    const { requests_per_day = null, tokens_per_day = null } = this.#config?.providers[name] ?? {};
    return { requestsPerDay: requests_per_day, tokensPerDay: tokens_per_day };
  }

  /** Replaced backends that still have requests in flight. */
  get retiring(): readonly Backend[] {
    return [...this.#retiring];
  }

  #retire(backend: Backend): void {
    this.#retiring.add(backend);
    const closed = backend.close().finally(() => this.#retiring.delete(backend));
    inBackground(this.#options.log, 'closing a provider', closed);
  }

  /** Connects to a provider that is not in use; the caller closes the backend. */
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

/** Records of all backends, with the health that their answers show. */
export function recordsOf(backends: ReadonlyMap<string, Backend>, health: readonly ProviderHealth[]): ProviderRecord[] {
  return Array.from(backends.values(), (backend) => {
    const record = backend.record();
    const shown = health.find(({ name }) => name === backend.name);
    if (shown === undefined || shown.state === 'unknown') return record;
    return { ...record, state: shown.state, last_checked_at: shown.last_checked_at, last_error: shown.reason };
  });
}

/** Returns the condition `providers`. */
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

/** True if the provider may keep its backend. An unhealthy one is replaced: the change may have fixed it. */
function isSame({ provider: before, backend }: Connected, provider: Provider): boolean {
  // JSON omits the functions, which depend on the data only.
  return JSON.stringify(before) === JSON.stringify(provider) && backend.record().state !== 'unhealthy';
}

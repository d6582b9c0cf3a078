/** Combines the catalogue, the config and the keys to usable providers. */
import type { Provider } from '../backends/cloud/provider.ts';
import { catalogue } from '../config/catalogue.ts';
import type { Config } from '../config/config.ts';
import { isLoopbackUrl } from '../config/provider-settings.ts';
import { SvcError } from '../protocol/errors.ts';
import type { ProviderRecord } from '../protocol/records.ts';
import type { KeyPlaces, ProviderKeys } from './provider-keys.ts';

type Settings = Config['providers'][string];

const API_OF_KIND = {
  openai: 'chat_completions',
  anthropic: 'messages',
  gemini: 'gemini',
  openai_compatible: 'chat_completions',
} as const;

const DEFAULTS = { enabled: true, idle_timeout_seconds: 300 } as const satisfies Settings;

/** Providers that are configured or have a key, in the order of the config, then of the catalogue. */
export function providersInUse(config: Config, keys: ProviderKeys): Provider[] {
  const names = new Set(Object.keys(config.providers));
  if (config.cloud.default_provider !== undefined) names.add(config.cloud.default_provider);
  for (const entry of catalogue().values()) {
    const provider = providerNamed(entry.name, config, keys);
    if (provider?.credential().present !== true) continue;
    // A token with other uses does not show that the user wants this provider.
    if (!entry.general_key || provider.credential().source !== 'env') names.add(entry.name);
  }
  return [...names].flatMap((name) => providerNamed(name, config, keys) ?? []);
}

/** Returns a provider, configured or not. undefined: it is unknown, or has no base URL. */
export function providerNamed(name: string, config: Config, keys: ProviderKeys): Provider | undefined {
  const entry = catalogue().get(name);
  const configured = Object.hasOwn(config.providers, name) ? config.providers[name] : undefined;
  if (entry === undefined && configured === undefined) return undefined;
  const settings: Settings = configured ?? DEFAULTS;
  const kind = settings.kind ?? entry?.kind ?? 'openai_compatible';
  // Another account with a known kind has that provider's defaults.
  const like = entry ?? catalogue().get(kind);
  const own = settings.base_url === undefined ? undefined : [settings.base_url].flat();
  const endpoints = own ?? (typeof like?.base_url === 'string' ? [like.base_url] : undefined);
  if (endpoints === undefined) return undefined;
  const places: KeyPlaces = {
    provider: name,
    variable: settings.api_key_env,
    usualVariables: entry?.key_variables ?? [],
    isNeeded: settings.api_key_env !== undefined || (own === undefined && (like?.key_variables.length ?? 0) > 0),
  };
  return {
    name,
    kind,
    api: settings.api ?? (settings.kind === undefined ? entry?.api : undefined) ?? API_OF_KIND[kind],
    endpoints,
    defaultModel: settings.default_model ?? like?.default_model ?? null,
    embeddingModel: settings.embedding_model ?? null,
    quirks: {
      ...like?.quirks,
      ...(settings.headers === undefined ? {} : { headers: { ...like?.quirks.headers, ...settings.headers } }),
    },
    isDeclared: own !== undefined || like?.self_hosted === true,
    concurrency: settings.concurrency ?? null,
    idleTimeoutMs: settings.idle_timeout_seconds * 1000,
    enabled: settings.enabled,
    isDefaultCloud: config.cloud.default_provider === name,
    credential: () => keys.credential(places),
    readKey: () =>
      Promise.resolve().then(() => {
        const key = keys.read(places);
        if (key !== null) refusePlainHttp(name, endpoints);
        return key;
      }),
  };
}

function refusePlainHttp(name: string, endpoints: readonly string[]): void {
  if (endpoints.every((url) => url.startsWith('https:') || isLoopbackUrl(url))) return;
  throw new SvcError('CONFIG_INVALID', `the key of ${name} is not sent over plain http to another machine`, {
    hint: `use https, or remove the key: svc provider unset ${name}`,
  });
}

/** True if the provider needs a key and has none. */
export function lacksKey({ credential }: Pick<ProviderRecord, 'credential'>): boolean {
  return credential.source !== 'none' && !credential.present;
}

/** The record of a provider before its first request. */
export function recordOf(provider: Provider): ProviderRecord {
  const credential = provider.credential();
  return {
    name: provider.name,
    kind: provider.kind,
    base_url: provider.endpoints[0] ?? null,
    endpoints: provider.endpoints,
    default_model: provider.defaultModel,
    embedding_model: provider.embeddingModel,
    credential,
    enabled: provider.enabled,
    default_cloud: provider.isDefaultCloud,
    state: lacksKey({ credential }) ? 'unconfigured' : 'unknown',
    last_checked_at: null,
    last_error: null,
  };
}

/**
 * The providers as this command sees them: through the daemon when there is one, for its environment and
 * its connections are what counts, and otherwise by itself.
 */
import type { Backend } from '../backends/backend.ts';
import type { Provider } from '../backends/cloud/provider.ts';
import { catalogue } from '../config/catalogue.ts';
import { loadConfig, type Config } from '../config/config.ts';
import { resolvePaths } from '../config/paths.ts';
import { SvcError } from '../protocol/errors.ts';
import type { ProviderRecord } from '../protocol/records.ts';
import { suggest } from '../protocol/suggest.ts';
import { ProviderKeys } from '../providers/provider-keys.ts';
import { providerNamed } from '../providers/providers.ts';

export interface ProvidersHere {
  readonly config: Config;
  readonly keys: ProviderKeys;
}

/** Read anew at each call. Throws CONFIG_INVALID. */
export function providersHere(): ProvidersHere {
  const paths = resolvePaths();
  return { config: loadConfig(paths), keys: new ProviderKeys(paths.credentialsFile) };
}

/** Configured or of the catalogue. Throws NOT_FOUND, with the name that may have been meant. */
export function findProvider(name: string, { config, keys }: ProvidersHere): Provider {
  const provider = providerNamed(name, config, keys);
  if (provider !== undefined) return provider;
  const form = catalogue().get(name)?.base_url_form;
  if (form !== undefined) {
    throw new SvcError('CONFIG_INVALID', `${name} has an address of its own for each account, and none is configured`, {
      hint: `svc provider set ${name} --base-url ${form}`,
    });
  }
  const likely = suggest(name, [...Object.keys(config.providers), ...catalogue().keys()]);
  throw new SvcError('NOT_FOUND', `no provider is named ${JSON.stringify(name.slice(0, 80))}`, {
    hint: likely === undefined ? 'see `svc provider list --all`' : `did you mean "${likely}"?`,
  });
}

/** A connection from this process. The caller closes it. */
export async function connectHere(provider: Provider): Promise<Backend> {
  const [{ CloudBackend }, { createLogger }] = await Promise.all([
    import('../backends/cloud/cloud-backend.ts'),
    import('../log/log.ts'),
  ]);
  return new CloudBackend({ provider, log: createLogger({ level: 'silent' }) });
}

/** What people call it. */
export function titleOf(name: string): string {
  return catalogue().get(name)?.title ?? name;
}

/** What is left to do where a key is missing. */
export function keyHint({ name, credential }: Pick<ProviderRecord, 'name' | 'credential'>): string {
  const keep = `svc provider set ${name} --api-key-stdin`;
  if (credential.source !== 'env' || credential.name === null) return `give svc the key: ${keep}`;
  return `give svc the key: ${keep}; or start the daemon with ${credential.name} in its environment`;
}

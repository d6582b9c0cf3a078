/** Providers as seen from this process: its config, its environment and the stored keys. */
import type { Backend } from '../../backends/backend.ts';
import type { Provider } from '../../backends/cloud/provider.ts';
import { catalogue } from '../../config/catalogue.ts';
import { loadConfig, type Config } from '../../config/config.ts';
import { resolvePaths } from '../../home/paths.ts';
import { SvcError } from '../../protocol/errors.ts';
import type { ProviderRecord } from '../../protocol/records.ts';
import { suggest } from '../../protocol/suggest.ts';
import { ProviderKeys } from '../../providers/provider-keys.ts';
import { providerNamed } from '../../providers/providers.ts';

/** Reads the config and the keys at each call. Throws CONFIG_INVALID. */
export function providersHere(): { readonly config: Config; readonly keys: ProviderKeys } {
  const paths = resolvePaths();
  return { config: loadConfig(paths), keys: new ProviderKeys(paths.credentialsFile) };
}

/** Finds a configured provider or one of the catalogue. Throws NOT_FOUND, with a suggestion. */
export function findProvider(name: string, { config, keys }: ReturnType<typeof providersHere>): Provider {
  const provider = providerNamed(name, config, keys);
  if (provider !== undefined) return provider;
  const form = catalogue().get(name)?.base_url_form;
  if (form !== undefined) {
    throw new SvcError('CONFIG_INVALID', `${name} has a different address for each account, and none is configured`, {
      hint: `svc provider set ${name} --base-url ${form}`,
    });
  }
  throw new SvcError('NOT_FOUND', `no provider is named ${JSON.stringify(name.slice(0, 80))}`, {
    hint: likeName(name, config),
  });
}

/** Returns the hint for an unknown name: a similar one, or where the names are. */
export function likeName(name: string, { providers }: Config): string {
  const likely = suggest(name, [...Object.keys(providers), ...catalogue().keys()]);
  return likely === undefined ? 'see `svc provider list --all`' : `did you mean "${likely}"?`;
}

/** Opens a backend in this process. The caller closes it. */
export async function connectHere(provider: Provider): Promise<Backend> {
  const [{ CloudBackend }, { createLogger }] = await Promise.all([
    import('../../backends/cloud/cloud-backend.ts'),
    import('../../log/log.ts'),
  ]);
  return new CloudBackend({ provider, log: createLogger({ level: 'silent' }) });
}

/** Returns the display name. */
export function titleOf(name: string): string {
  return catalogue().get(name)?.title ?? name;
}

/** Returns the hint for a missing key. */
export function keyHint({ name, credential }: Pick<ProviderRecord, 'name' | 'credential'>): string {
  const keep = `svc provider set ${name} --api-key-stdin`;
  if (credential.source !== 'env' || credential.name === null) return `store the key: ${keep}`;
  return `store the key: ${keep}; or start the daemon with ${credential.name} in its environment`;
}

/**
 * Who answers a request. Pure: the request and the providers' records in, a decision out.
 *
 * `route` is what the caller asked for: `local`, `cloud`, `provider:NAME`, or nothing. A model name
 * may carry the provider in front, `provider/model`; since installed models may have slashes in
 * their ids too, the part before the first slash counts only when a provider has that name. A
 * `route` outweighs a name, and what was asked for explicitly is never replaced by something else.
 */
import { SvcError } from '../protocol/errors.ts';
import type { GenerateRequest } from '../protocol/generate.ts';
import type { ProviderRecord } from '../protocol/records.ts';

export interface Decision {
  /** The route as it was asked for: `local`, `cloud`, `provider:NAME`, or `default`. */
  readonly requested: string;
  readonly provider: string;
  /** The model's name for that provider. Absent: its default. */
  readonly model: string | undefined;
}

const LOCAL = 'local';
const EXPLICIT = 'provider:';

/** Throws INVALID_REQUEST for a route that is none, CONFIG_INVALID when nobody is configured to take it. */
export function decide(
  request: Pick<GenerateRequest, 'model' | 'route'>,
  providers: readonly ProviderRecord[],
): Decision {
  const { model, route } = request;
  if (route === undefined) {
    const named = providers.find((provider) => isNamedBy(provider.name, model));
    if (named === undefined) return { requested: 'default', provider: LOCAL, model };
    return to(`${EXPLICIT}${named.name}`, named.name, model);
  }
  if (route === LOCAL) return to(route, LOCAL, model);
  if (route === 'cloud') return to(route, cloudProvider(providers).name, model);
  if (!route.startsWith(EXPLICIT)) {
    throw new SvcError('INVALID_REQUEST', 'route must be local, cloud or provider:NAME', { param: 'route' });
  }
  const name = route.slice(EXPLICIT.length);
  if (!providers.some((provider) => provider.name === name)) {
    throw new SvcError('CONFIG_INVALID', `no provider is named '${name}'`, {
      hint: `see \`svc provider list\`, or add it: svc provider set ${name} --api-key-env VAR`,
      param: 'route',
    });
  }
  return to(route, name, model);
}

function to(requested: string, provider: string, model: string | undefined): Decision {
  const inner = isNamedBy(provider, model) ? model?.slice(provider.length + 1) : model;
  return { requested, provider, model: inner };
}

/** A `file:` path never hides behind a provider's name: listeners look for it at the start only. */
function isNamedBy(provider: string, model: string | undefined): boolean {
  const prefix = `${provider}/`;
  return (
    model?.startsWith(prefix) === true && model.length > prefix.length && !model.startsWith('file:', prefix.length)
  );
}

/** The configured default; without one, the only provider that has a credential. */
function cloudProvider(providers: readonly ProviderRecord[]): ProviderRecord {
  const cloud = providers.filter((provider) => provider.kind !== 'local' && provider.enabled);
  const usable = cloud.filter((provider) => provider.credential.present);
  const chosen = cloud.find((provider) => provider.default_cloud) ?? (usable.length === 1 ? usable[0] : undefined);
  if (chosen !== undefined) return chosen;
  if (usable.length > 1) {
    const names = usable.map((provider) => provider.name).join(', ');
    throw new SvcError('CONFIG_INVALID', `several cloud providers could answer (${names}) and none is the default`, {
      hint: 'choose one: svc provider set NAME --default, or run with --provider NAME',
      param: 'route',
    });
  }
  throw new SvcError('CONFIG_INVALID', 'no cloud provider is configured', {
    hint: 'add one: svc provider set openai --api-key-env OPENAI_API_KEY --default; or answer here with --local',
    param: 'route',
  });
}

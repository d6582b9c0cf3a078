/**
 * Decides which backends may answer a request. Pure: maps request, provider records and policies to a plan.
 *
 * `route` is the caller's choice: `local`, `cloud`, `provider:NAME`, or absent. A model name may have a provider
 * prefix, `provider/model`; because ids of installed models may contain slashes too, the prefix counts only if a
 * provider has that name. `route` takes precedence over the prefix, and an explicit choice never falls back.
 *
 * A policy is a named, ordered list of candidates. A request uses it by naming it as the model; a request without
 * model and route uses the policy `default`. It falls back to the next candidate on the policy's conditions, as long
 * as nothing of the answer was sent.
 */
import { SvcError, type ErrorCode } from '../protocol/errors.ts';
import type { GenerateRequest } from '../protocol/generate.ts';
import { allows, type KeyScope } from '../protocol/keys.ts';
import type { ProviderRecord } from '../protocol/records.ts';
import type { FallbackCondition } from '../protocol/routing.ts';

export interface Policy {
  /** `provider` or `provider/model`, in the order of trial. */
  readonly candidates: readonly string[];
  readonly fallback_on: readonly FallbackCondition[];
}
export type Policies = Readonly<Record<string, Policy>>;

export interface Candidate {
  readonly provider: string;
  /** The model's name at that provider. Absent: its default. */
  readonly model: string | undefined;
}

export interface Plan {
  /** The requested route: `local`, `cloud`, `provider:NAME`, `policy:NAME`, or `default`. */
  readonly requested: string;
  /** Never empty. */
  readonly candidates: readonly Candidate[];
  readonly fallbackOn: readonly FallbackCondition[];
}

/** The fields of a request that decide. */
export interface RoutedRequest extends Pick<GenerateRequest, 'model' | 'route'> {
  /** `same_model`: only to candidates whose model has the same name as the first one's. Default: true. */
  readonly fallback?: boolean | 'same_model';
}

/** Name of the local backend; providers cannot have it. */
export const LOCAL = 'local';
/** Policy of requests without model and route. */
export const DEFAULT_POLICY = 'default';
const EXPLICIT = 'provider:';

/**
 * Throws INVALID_REQUEST for an invalid route, NOT_FOUND for an unknown provider, CONFIG_INVALID if no provider is
 * configured for the request.
 */
export function decide(request: RoutedRequest, providers: readonly ProviderRecord[], policies: Policies = {}): Plan {
  const { model, route, fallback = true } = request;
  if (route === undefined) {
    const name = model ?? DEFAULT_POLICY;
    const policy = Object.hasOwn(policies, name) ? policies[name] : undefined;
    if (policy !== undefined) return byPolicy(name, policy, fallback);
    const named = providers.find((provider) => isNamedBy(provider.name, model));
    if (named === undefined) return { ...to('default', LOCAL, undefined), candidates: [{ provider: LOCAL, model }] };
    checkEnabled(named);
    return to(`${EXPLICIT}${named.name}`, named.name, model);
  }
  if (route === LOCAL) return to(route, LOCAL, model);
  if (route === 'cloud') return to(route, cloudProvider(providers).name, model);
  if (!route.startsWith(EXPLICIT)) {
    throw new SvcError('INVALID_REQUEST', 'route must be local, cloud or provider:NAME', { param: 'route' });
  }
  const name = route.slice(EXPLICIT.length);
  const provider = providers.find((each) => each.name === name);
  if (provider === undefined) {
    throw new SvcError('NOT_FOUND', `no provider is named '${name}'`, {
      hint: `see \`svc provider list --all\`, or add it: svc provider set ${name} --base-url URL`,
      param: 'route',
    });
  }
  checkEnabled(provider);
  return to(route, name, model);
}

/** Restricts `plan` to the candidates that this scope may use. Throws FORBIDDEN if none is left. */
export function within(plan: Plan, scope: KeyScope): Plan {
  if (allows(scope, 'inference')) return plan;
  const candidates = plan.candidates.filter(({ provider }) => provider === LOCAL);
  if (candidates.length > 0) return { ...plan, candidates };
  throw noProviders(scope);
}

/**
 * Throws FORBIDDEN if the route names a provider and this scope may use none. Called before `decide`, whose errors tell
 * which providers exist.
 */
export function checkRoute(route: string | undefined, scope: KeyScope): void {
  if (route === undefined || allows(scope, 'inference')) return;
  if (route === 'cloud' || route.startsWith(EXPLICIT)) throw noProviders(scope);
}

function noProviders(scope: KeyScope): SvcError {
  return new SvcError('FORBIDDEN', `the scope ${scope} of this API key or web page does not allow providers`, {
    hint: 'use a local model, or a key with scope inference: svc key add NAME --scope inference',
  });
}

function checkEnabled({ name, enabled }: ProviderRecord): void {
  if (enabled) return;
  throw new SvcError('CONFIG_INVALID', `provider ${name} is disabled in the config`, {
    hint: `enable it: svc config set providers.${name}.enabled true`,
    param: 'route',
  });
}

function to(requested: string, provider: string, model: string | undefined): Plan {
  const inner = isNamedBy(provider, model) ? model?.slice(provider.length + 1) : model;
  return { requested, candidates: [{ provider, model: inner }], fallbackOn: [] };
}

function byPolicy(name: string, policy: Policy, fallback: RoutedRequest['fallback']): Plan {
  const all = candidatesOf(policy);
  const [first] = all;
  const isSame = ({ model }: Candidate): boolean => model !== undefined && model === first?.model;
  return {
    requested: name === DEFAULT_POLICY ? 'default' : `policy:${name}`,
    candidates: all.filter(
      (each) => each === first || fallback === true || (fallback === 'same_model' && isSame(each)),
    ),
    fallbackOn: policy.fallback_on,
  };
}

/** The candidates of a policy, in the order of trial. */
export function candidatesOf({ candidates }: Policy): Candidate[] {
  return candidates.map((candidate) => {
    const slash = candidate.indexOf('/');
    if (slash === -1) return { provider: candidate, model: undefined };
    return { provider: candidate.slice(0, slash), model: candidate.slice(slash + 1) };
  });
}

const CONDITION_OF: Partial<Record<ErrorCode, FallbackCondition>> = {
  PROVIDER_FAILED: 'unavailable',
  PROVIDER_AUTH: 'unavailable',
  ENGINE_CRASHED: 'unavailable',
  ENGINE_UNAVAILABLE: 'unavailable',
  NOT_READY: 'unavailable',
  CONFIG_INVALID: 'unavailable',
  OUT_OF_MEMORY: 'unavailable',
  TIMEOUT: 'unavailable',
  BUSY: 'overloaded',
  CONTEXT_OVERFLOW: 'context_too_long',
  MODEL_NOT_FOUND: 'model_missing',
};

/** True if `plan` allows a fallback to the next candidate after `error`. */
export function mayFallBack(plan: Plan, error: SvcError): boolean {
  const condition = CONDITION_OF[error.code];
  return condition !== undefined && plan.fallbackOn.includes(condition);
}

/** True for `provider/…`, except `provider/file:…`: listeners look for `file:` only at the start of the name. */
function isNamedBy(provider: string, model: string | undefined): boolean {
  const prefix = `${provider}/`;
  return (
    model?.startsWith(prefix) === true && model.length > prefix.length && !model.startsWith('file:', prefix.length)
  );
}

/** The default cloud provider; if none is configured, the only provider with a credential. */
function cloudProvider(providers: readonly ProviderRecord[]): ProviderRecord {
  const cloud = providers.filter((provider) => provider.kind !== 'local' && provider.enabled);
  const usable = cloud.filter((provider) => provider.credential.present);
  const chosen = cloud.find((provider) => provider.default_cloud) ?? (usable.length === 1 ? usable[0] : undefined);
  if (chosen !== undefined) return chosen;
  if (usable.length > 1) {
    const names = usable.map((provider) => provider.name).join(', ');
    throw new SvcError('CONFIG_INVALID', `several cloud providers are configured (${names}), and none is the default`, {
      hint: 'choose one: svc provider set NAME --default, or run with --provider NAME',
      param: 'route',
    });
  }
  throw new SvcError('CONFIG_INVALID', 'no cloud provider is configured', {
    hint: 'add one: svc provider set openai --api-key-env OPENAI_API_KEY --default; or answer here with --local',
    param: 'route',
  });
}

/**
 * Lists the names that requests may use as their model. A name is listed with what answers a request that uses it: the
 * policy, provider or local model that `decide` chooses for it. Names that nothing can answer are left out.
 */
import { loadSettingsOf, type LoadDefaults } from '../protocol/model/settings.ts';
import type { ListedModel } from '../protocol/model/listed.ts';
import { allows, type KeyScope } from '../protocol/keys.ts';
import type { Capability, ModelRecord, ProviderRecord } from '../protocol/records.ts';
import { candidatesOf, decide, DEFAULT_POLICY, LOCAL, type Candidate, type Policies } from './policy.ts';

export interface ListedFrom {
  readonly models: readonly ModelRecord[];
  readonly providers: readonly ProviderRecord[];
  readonly policies: Policies;
  /** The config's section `engine`. */
  readonly defaults: LoadDefaults;
  /** Scope of the caller: some may use local models only. */
  readonly scope: KeyScope;
}

/** Listed without its name. */
type Facts = Omit<ListedModel, 'id' | 'aliases' | 'kind' | 'owner' | 'default'>;

const UNKNOWN_DATE = '1970-01-01T00:00:00.000Z';

export function listModels(from: ListedFrom): ListedModel[] {
  const { models, providers, policies, scope } = from;
  const mayUseProviders = allows(scope, 'inference');
  const local = models
    .filter(({ id, state }) => state !== 'failed' && isLocalName(id, from))
    .map((record) => localModel(record, from));
  const cloud = mayUseProviders ? providers.flatMap((provider) => providerModels(provider, from)) : [];
  const named = Object.keys(policies).flatMap((name) => policyModel(name, from, mayUseProviders) ?? []);
  return [...local, ...cloud, ...named];
}

/** False if a policy or a provider answers requests that use this name. */
function isLocalName(id: string, { providers, policies }: ListedFrom): boolean {
  if (Object.hasOwn(policies, id)) return false;
  // A disabled provider refuses its names.
  const enabled = providers.map((provider) => ({ ...provider, enabled: true }));
  const [first] = decide({ model: id }, enabled, policies).candidates;
  return first?.provider === LOCAL && first.model === id;
}

function localModel(record: ModelRecord, from: ListedFrom): ListedModel {
  const { id, default: isDefault } = record;
  const aliases = record.aliases.filter((alias) => isLocalName(alias, from));
  const isPlain = isDefault && !Object.hasOwn(from.policies, DEFAULT_POLICY);
  return { id, aliases, kind: 'local', owner: 'svc', default: isPlain, ...localFacts(record, from) };
}

function localFacts(record: ModelRecord, { defaults }: ListedFrom): Facts {
  const { capabilities, capabilities_tried, modified_at, loaded } = record;
  const asked = loadSettingsOf(record.settings, defaults).context_length;
  return {
    created_at: modified_at,
    context_length: loaded?.context_length ?? asked ?? record.context_length,
    capabilities,
    capabilities_tried,
    record,
  };
}

/** The default models of a provider. Empty: it has none, or cannot be used. */
function providerModels(provider: ProviderRecord, { policies }: ListedFrom): ListedModel[] {
  const { name, default_model, embedding_model } = provider;
  if (name === LOCAL || !isUsable(provider)) return [];
  return [...new Set([default_model, embedding_model])].flatMap((model) => {
    const id = `${name}/${String(model)}`;
    if (model === null || Object.hasOwn(policies, id)) return [];
    return [{ id, aliases: [], kind: 'provider', owner: name, default: false, ...providerFacts(provider, model) }];
  });
}

/** Providers do not say what their models are capable of; every other model than the one for embeddings should chat. */
function providerFacts({ embedding_model }: ProviderRecord, model: string): Facts {
  return {
    created_at: UNKNOWN_DATE,
    context_length: null,
    capabilities: [model === embedding_model ? 'embedding' : 'chat'],
    capabilities_tried: false,
    record: null,
  };
}

/** null: no candidate can answer. */
function policyModel(name: string, from: ListedFrom, mayUseProviders: boolean): ListedModel | null {
  const policy = from.policies[name];
  const facts = (policy === undefined ? [] : candidatesOf(policy))
    .filter(({ provider }) => mayUseProviders || provider === LOCAL)
    .flatMap((candidate) => candidateFacts(candidate, from) ?? []);
  const [first, ...others] = facts;
  if (first === undefined) return null;
  return {
    id: name,
    aliases: [],
    kind: 'policy',
    owner: 'svc',
    default: name === DEFAULT_POLICY,
    created_at: UNKNOWN_DATE,
    context_length: least(facts.map(({ context_length }) => context_length)),
    capabilities: others.reduce<readonly Capability[]>(
      (common, { capabilities }) => common.filter((each) => capabilities.includes(each)),
      first.capabilities,
    ),
    capabilities_tried: facts.every(({ capabilities_tried }) => capabilities_tried),
    record: null,
  };
}

/** null: it cannot answer. */
function candidateFacts({ provider, model }: Candidate, from: ListedFrom): Facts | null {
  if (provider === LOCAL) {
    const record = from.models.find(({ id, aliases, ...found }) =>
      model === undefined ? found.default : id === model || aliases.includes(model),
    );
    return record === undefined || record.state === 'failed' ? null : localFacts(record, from);
  }
  const record = from.providers.find(({ name }) => name === provider);
  if (record === undefined || !isUsable(record)) return null;
  const name = model ?? record.default_model;
  return name === null ? null : providerFacts(record, name);
}

function isUsable({ enabled, credential }: ProviderRecord): boolean {
  return enabled && (credential.source === 'none' || credential.present);
}

function least(lengths: readonly (number | null)[]): number | null {
  const known = lengths.filter((length) => length !== null);
  return known.length < lengths.length ? null : Math.min(...known);
}

/**
 * The models that an API key may use, for keys that have a list of them. Everything else is to such a key as if it did
 * not exist: the same error as for an unknown name, so that a key cannot find out what there is.
 */
import { SvcError } from '../protocol/errors.ts';
import { lists, listsLocal } from '../protocol/keys.ts';
import type { ModelRecord, ProviderRecord } from '../protocol/records.ts';
import {
  decide,
  DEFAULT_POLICY,
  LOCAL,
  type Candidate,
  type Plan,
  type Policies,
  type RoutedRequest,
} from './policy.ts';

/** Finds a model of this machine as the local backend does. Absent name: the default. Rejects with MODEL_NOT_FOUND. */
export type FindModel = (name: string | undefined) => Promise<Pick<ModelRecord, 'id' | 'aliases'>>;

interface World {
  readonly providers: readonly ProviderRecord[];
  readonly policies: Policies | undefined;
  find: FindModel;
}

/** Like `decide`, but limited to `models`. Also rejects with MODEL_NOT_FOUND. */
export async function decideWithin(
  models: readonly string[],
  request: RoutedRequest,
  { providers, policies = {}, find }: World,
): Promise<Plan> {
  const { model, route } = request;
  const mayUse = ({ name }: ProviderRecord): boolean =>
    name === LOCAL || models.some((each) => inLower(each) === name || inLower(each).startsWith(`${name}/`));
  const known = Object.entries(policies).filter(([name]) => lists(models, [name]));
  const plan = decide(request, providers.filter(mayUse), Object.fromEntries(known));
  const isPolicy = route === undefined && known.some(([name]) => name === (model ?? DEFAULT_POLICY));
  // A key that may use a policy may use all its candidates through it.
  if (isPolicy) return plan;
  const [candidate] = plan.candidates;
  if (candidate === undefined || !(await isListed(models, candidate, providers, find))) throw unknownModel(model);
  return plan;
}

async function isListed(
  models: readonly string[],
  { provider, model }: Candidate,
  providers: readonly ProviderRecord[],
  find: FindModel,
): Promise<boolean> {
  if (provider !== LOCAL) {
    const name = model ?? providers.find((each) => each.name === provider)?.default_model;
    return lists(models, [provider, ...(typeof name === 'string' ? [`${provider}/${name}`] : [])]);
  }
  try {
    return listsLocal(models, await find(model));
  } catch (error) {
    if (error instanceof SvcError && error.code === 'MODEL_NOT_FOUND') return false;
    throw error;
  }
}

function unknownModel(name: string | undefined): SvcError {
  const what = name === undefined ? 'there is no default model for this API key' : `no model is named '${name}'`;
  return new SvcError('MODEL_NOT_FOUND', what, { hint: 'see GET /v1/models', param: 'model' });
}

function inLower(text: string): string {
  return text.toLowerCase();
}

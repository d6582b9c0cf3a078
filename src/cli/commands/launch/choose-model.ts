/** Chooses the model for an agent: the one that was named, or the best of this machine. Loads a local model. */
import { totalmem } from 'node:os';
import type { ControlClient } from '../../../client/control-client.ts';
import { estimatedBytes, searchCatalogue } from '../../../models/pull/catalogue.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { DEFAULT_NAME, findNamed } from '../../../protocol/model/named.ts';
import type { Model } from '../../../protocol/openai/model.ts';
import type { ModelRecord } from '../../../protocol/records.ts';
import { modelName } from '../../machine/model-name.ts';
import { ByteProgress } from '../../terminal/byte-progress.ts';
import { count } from '../../terminal/format.ts';
import { say, sayProgress } from '../../terminal/output.ts';
import type { Agent, Connection } from './agents.ts';

export type ChosenModel = Pick<Connection, 'model' | 'contextLength'>;

type Needs = Pick<Agent, 'title' | 'leastContext'>;

/** Part of the memory that the weights of a recommended model may take. */
const SHARE_OF_MEMORY = 0.5;

/**
 * `typed`: model, PROVIDER/MODEL or policy. Without it: the default if it suffices, otherwise the largest installed
 * model that does. Throws MODEL_NOT_FOUND, INVALID_REQUEST if the named model does not suffice, the error of a load.
 */
export async function chooseModel(
  client: ControlClient,
  typed: string | undefined,
  agent: Needs,
): Promise<ChosenModel> {
  const [listed, records] = await Promise.all([client.listed(), client.models()]);
  const installed = bestFirst(listed, records);
  if (typed !== undefined) return await named(typed, { client, agent, listed, records, installed });
  const standard = find(DEFAULT_NAME, listed, records);
  for (const model of new Set([...(standard === undefined ? [] : [standard]), ...installed])) {
    if (lackOf(model, agent) !== null) continue;
    const ready = await readied(client, model, agent).catch((error: unknown) => {
      if (!(error instanceof SvcError) || error.code === 'DAEMON_NOT_RUNNING') throw error;
      return error;
    });
    if (!(ready instanceof SvcError)) return ready;
    say(`not used: ${ready.message}`);
  }
  throw new SvcError('MODEL_NOT_FOUND', `no installed model suffices for ${agent.title}: ${needsOf(agent)}`, {
    hint: `pull one: svc model pull ${recommended(agent)}; or name one of a provider: --model PROVIDER/MODEL`,
  });
}

interface Among {
  readonly client: ControlClient;
  readonly agent: Needs;
  readonly listed: readonly Model[];
  readonly records: readonly ModelRecord[];
  readonly installed: readonly Model[];
}

async function named(typed: string, { client, agent, listed, records, installed }: Among): Promise<ChosenModel> {
  if (modelName(typed) !== typed) {
    throw new SvcError('INVALID_REQUEST', 'an agent can use a file only under a name', {
      hint: `add it first: svc model add ${typed}`,
    });
  }
  const model = find(typed, listed, records);
  if (model === undefined) {
    const provider = (await client.providers()).find(({ name, enabled }) => enabled && typed.startsWith(`${name}/`));
    // Nothing is known of a provider's models, apart from its default one.
    if (provider !== undefined && provider.name !== 'local') return { model: typed, contextLength: null };
    throw new SvcError('MODEL_NOT_FOUND', `no model is named ${JSON.stringify(typed.slice(0, 80))}`, {
      hint: 'see `svc model list` and `svc provider list`',
    });
  }
  const other = installed.find((each) => each !== model && lackOf(each, agent) === null)?.id;
  const lack = lackOf(model, agent);
  if (lack !== null) throw insufficient(model, agent, lack, other);
  return await readied(client, model, agent, other);
}

/** Names of the config are last, because the models that they are made from are there, too. */
function bestFirst(listed: readonly Model[], records: readonly ModelRecord[]): Model[] {
  const installed = records
    .filter(({ builtin }) => !builtin)
    .flatMap((record) => {
      const model = listed.find(({ id, kind }) => kind === 'local' && id === record.id);
      return model === undefined ? [] : [{ model, record }];
    });
  const rank = ({ model, record }: (typeof installed)[number]): number =>
    (record.from === undefined ? 2 : 0) + (model.capabilities.includes('tools') ? 1 : 0);
  return installed
    .sort((a, b) => rank(b) - rank(a) || (b.record.parameters ?? 0) - (a.record.parameters ?? 0))
    .map(({ model }) => model);
}

/** `name`: as in a request; `default` may also be a policy. */
function find(name: string, listed: readonly Model[], records: readonly ModelRecord[]): Model | undefined {
  const isDefault = name.toLowerCase() === DEFAULT_NAME;
  const record = isDefault ? records.find((each) => each.default) : findNamed(name, records);
  return listed.find(({ id }) => id.toLowerCase() === name.toLowerCase()) ?? listed.find(({ id }) => id === record?.id);
}

/** Returns why the model does not suffice; null: nothing known is missing. */
function lackOf({ max_model_len: length, ...model }: Model, { leastContext }: Needs): string | null {
  if (!model.capabilities.includes('chat')) return 'it cannot chat';
  if (model.capabilities_tried && !model.capabilities.includes('tools'))
    return 'its chat template has no form for tools';
  if (length === null || length >= leastContext) return null;
  return `its context has ${count(length)} tokens, of ${count(leastContext)} that are needed`;
}

/** Loads a local model: only then its real context and whether it can call tools are known. `other`: for the error. */
async function readied(client: ControlClient, model: Model, agent: Needs, other?: string): Promise<ChosenModel> {
  if (model.kind !== 'local') return { model: model.id, contextLength: model.max_model_len };
  const wishes = { context_length: agent.leastContext, briefly: true };
  let contextLength = 0;
  const progress = new ByteProgress(`loading ${model.id}`);
  try {
    for await (const event of client.load(model.id, new AbortController().signal, wishes)) {
      if (event.type === 'loaded') contextLength = event.context_length;
      else progress.show(event);
    }
  } finally {
    sayProgress('');
  }
  const loaded = (await client.listed()).find(({ id }) => id === model.id) ?? model;
  const lack = lackOf({ ...loaded, max_model_len: contextLength }, agent);
  if (lack !== null) throw insufficient(model, agent, lack, other);
  return { model: model.id, contextLength };
}

function insufficient({ id }: Model, agent: Needs, lack: string, other?: string): SvcError {
  const use = other === undefined ? `pull one that does: svc model pull ${recommended(agent)}` : `use --model ${other}`;
  return new SvcError('INVALID_REQUEST', `${id} does not suffice for ${agent.title}: ${lack}`, { hint: use });
}

function needsOf({ leastContext }: Needs): string {
  return `it needs calls of tools and a context of ${count(leastContext)} tokens`;
}

/** Returns the largest model of the catalogue that suffices and fits this machine well; if none does, the smallest. */
export function recommended({ leastContext }: Pick<Agent, 'leastContext'>, memoryBytes: number = totalmem()): string {
  const suitable = searchCatalogue('tools')
    .filter(({ context_length }) => context_length >= leastContext)
    .map((entry) => ({ name: entry.name, bytes: estimatedBytes(entry, entry.default_quantization) }))
    .sort((a, b) => a.bytes - b.bytes);
  const fitting = suitable.findLast(({ bytes }) => bytes <= memoryBytes * SHARE_OF_MEMORY);
  return (fitting ?? suitable[0])?.name ?? 'NAME';
}

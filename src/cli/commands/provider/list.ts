import { catalogue } from '../../../config/catalogue.ts';
import type { ProviderRecord } from '../../../protocol/records.ts';
import { lacksKey, providersInUse, providerNamed, recordOf } from '../../../providers/providers.ts';
import { jsonFlag, type Run, type Spec } from '../../spec.ts';
import { text } from '../../terminal/format.ts';
import { table } from '../../terminal/layout.ts';
import { fromDaemon, openStore } from '../../machine/models.ts';
import { out, printJson, say } from '../../terminal/output.ts';
import { printText } from '../../terminal/result.ts';
import { providersHere } from '../../machine/providers.ts';
import { findServers } from './find-servers.ts';

export const spec = {
  summary: 'List what can answer a prompt: this machine and the providers',
  detail: ['This machine comes first, then configured providers and those whose key is in the environment.'],
  flags: {
    all: { kind: 'switch', summary: 'also list known providers that are not configured' },
    probe: {
      kind: 'switch',
      summary: 'look for servers on this machine, at the usual addresses of Ollama and others',
    },
    json: jsonFlag,
  },
  examples: ['svc provider list', 'svc provider list --all', 'svc provider list --probe --json'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ all, probe, json }) => {
  const inUse = (await fromDaemon((client) => client.providers())) ?? [await localProvider(), ...withoutDaemon()];
  const providers = all ? [...inUse, ...othersThan(inUse)] : inUse;
  const found = probe ? await findServers() : undefined;
  if (json) {
    printJson({ providers, ...(found === undefined ? {} : { found }) });
    return;
  }
  const rows = providers.map((provider) => [
    provider.name,
    provider.state,
    keyOf(provider),
    text(provider.default_model),
    noteOn(provider),
    provider.kind,
  ]);
  printText(table([['PROVIDER', 'STATE', 'KEY', 'DEFAULT MODEL', 'NOTE', 'KIND'], ...rows], out.tableColumns));
  if (found !== undefined) {
    printText('');
    if (found.length === 0) say('no server answers at the usual addresses on this machine');
    else printText(table([['FOUND', 'AT', 'MODELS', 'TO USE IT'], ...found.map(asRow)], out.tableColumns));
  }
};

function asRow({ name, base_url, models }: { name: string; base_url: string; models: readonly string[] }): string[] {
  const isUsual = catalogue().get(name)?.base_url === base_url;
  const use = `svc provider set ${name}${isUsual ? '' : ` --base-url ${base_url}`}`;
  return [name, base_url, String(models.length), use];
}

function keyOf(provider: ProviderRecord): string {
  const { source, name } = provider.credential;
  if (source === 'none') return text(null);
  return lacksKey(provider) ? `missing (${name ?? source})` : (name ?? source);
}

function noteOn({ enabled, default_cloud, last_error }: ProviderRecord): string {
  const notes = [enabled ? null : 'disabled', default_cloud ? 'default of --cloud' : null, last_error];
  return text(notes.filter((note) => note !== null).join('; ') || null);
}

function withoutDaemon(): ProviderRecord[] {
  const { config, keys } = providersHere();
  return providersInUse(config, keys).map(recordOf);
}

/** Returns the other providers of the catalogue. Those with an address per account have no address yet. */
function othersThan(known: readonly ProviderRecord[]): ProviderRecord[] {
  const { config, keys } = providersHere();
  const names = new Set(known.map(({ name }) => name));
  const others = [...catalogue().values()].filter(({ name }) => !names.has(name));
  return others.map(({ name, kind, default_model, key_variables: [variable = null] }): ProviderRecord => {
    const provider = providerNamed(name, config, keys);
    if (provider !== undefined) return { ...recordOf(provider), state: 'unconfigured' };
    const credential = { source: 'env', name: variable, present: false } as const;
    return { ...NOTHING_KNOWN, name, kind, default_model, credential, state: 'unconfigured' };
  });
}

/** Record of this machine while no daemon is running. */
async function localProvider(): Promise<ProviderRecord> {
  const models = await openStore().list();
  return { ...NOTHING_KNOWN, name: 'local', default_model: models.find((model) => model.default)?.id ?? null };
}

const NOTHING_KNOWN = {
  kind: 'local',
  base_url: null,
  endpoints: [],
  embedding_model: null,
  credential: { source: 'none', name: null, present: false },
  enabled: true,
  default_cloud: false,
  state: 'unknown',
  last_checked_at: null,
  last_error: null,
} as const;

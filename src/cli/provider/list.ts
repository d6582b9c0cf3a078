import type { ProviderRecord } from '../../protocol/records.ts';
import type { Run } from '../commands.ts';
import { table, text } from '../format.ts';
import { fromDaemon, openStore } from '../models.ts';
import { print, printJson } from '../output.ts';

export const run: Run<'provider list'> = async ({ json }) => {
  const providers = (await fromDaemon((client) => client.providers())) ?? [await localProvider()];
  if (json) {
    printJson({ providers });
    return 0;
  }
  const rows = providers.map((provider) => [
    provider.name,
    provider.kind,
    provider.state,
    text(provider.default_model),
    text(provider.last_error),
  ]);
  print(table([['PROVIDER', 'KIND', 'STATE', 'DEFAULT MODEL', 'LAST ERROR'], ...rows]));
  return 0;
};

/** What is known of it while no daemon runs. */
async function localProvider(): Promise<ProviderRecord> {
  const models = await openStore().list();
  return {
    name: 'local',
    kind: 'local',
    base_url: null,
    endpoints: [],
    default_model: models.find((model) => model.default)?.id ?? null,
    credential: { source: 'none', name: null, present: false },
    enabled: true,
    default_cloud: false,
    state: 'unknown',
    last_checked_at: null,
    last_error: null,
  };
}

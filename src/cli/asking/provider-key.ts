/**
 * Checks, before a prompt goes to a chosen provider, that its key exists. On a terminal svc asks for a missing key;
 * otherwise the command fails at once.
 */
import type { ControlClient } from '../../client/control-client.ts';
import { checkedKey, saveCredential } from '../../home/credentials-file.ts';
import type { Paths } from '../../home/paths.ts';
import { SvcError } from '../../protocol/errors.ts';
import type { ProviderRecord } from '../../protocol/records.ts';
import { lacksKey, providerNamed, recordOf } from '../../providers/providers.ts';
import type { FlagValues, routingFlags } from '../spec.ts';
import { askSecret, askYesNo, say } from '../terminal/output.ts';
import { keyHint, providersHere, titleOf } from '../machine/providers.ts';

/**
 * Throws PROVIDER_AUTH if the key is missing and svc cannot ask for it, CONFIG_INVALID for a known provider that is not
 * configured. The daemon reports everything else.
 */
export async function ensureKey(
  client: ControlClient,
  paths: Paths,
  flags: Pick<FlagValues<typeof routingFlags>, 'provider' | 'cloud'>,
): Promise<void> {
  const running = (await client.providers()).find(({ name, default_cloud }) =>
    flags.cloud ? default_cloud : name === flags.provider,
  );
  if (running !== undefined && !lacksKey(running)) return;
  const here = recordHere(running?.name ?? flags.provider);
  if (here === undefined) return;
  if (!lacksKey(running ?? here) && here.credential.source === 'none') {
    throw new SvcError('CONFIG_INVALID', `${here.name} is not configured`, { hint: `svc provider set ${here.name}` });
  }
  if (here.credential.present) {
    throw new SvcError('PROVIDER_AUTH', `the running daemon has no key for ${here.name}`, {
      hint: `it was started without ${here.credential.name ?? 'it'}: svc restart; or store the key: svc provider set ${here.name} --api-key-stdin`,
    });
  }
  await askForKey(here, client, paths);
}

function recordHere(name: string | undefined): ProviderRecord | undefined {
  if (name === undefined) return undefined;
  const { config, keys } = providersHere();
  const provider = providerNamed(name, config, keys);
  return provider && recordOf(provider);
}

async function askForKey(record: ProviderRecord, client: ControlClient, paths: Paths): Promise<void> {
  const { name } = record;
  const typed = await askSecret(`${titleOf(name)} API key (hidden)`);
  if (typed === undefined || typed.trim() === '') {
    throw new SvcError('PROVIDER_AUTH', `there is no key for ${name}`, { hint: keyHint(record) });
  }
  const key = checkedKey(typed);
  if (await askYesNo(`store it in ${paths.credentialsFile}?`)) {
    await saveCredential(paths.credentialsFile, name, key);
    await client.reload();
  } else {
    await client.lendKey(name, key);
    say('not stored: the daemon keeps the key in memory until it ends');
  }
}

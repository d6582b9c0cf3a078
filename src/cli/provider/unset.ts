import { removeCredential } from '../../config/credentials-file.ts';
import { resolvePaths } from '../../config/paths.ts';
import { changeConfig } from '../../config/settings.ts';
import { SvcError } from '../../protocol/errors.ts';
import { providerNamed } from '../../providers/providers.ts';
import type { Run } from '../commands.ts';
import { print, printJson, say } from '../output.ts';
import { providersHere } from '../providers.ts';
import { askDaemonToReload } from './effect.ts';

export const run: Run<'provider unset'> = async ({ json }, { provider: name }) => {
  const paths = resolvePaths();
  const { config } = providersHere();
  const isConfigured = Object.hasOwn(config.providers, name);
  const isDefault = config.cloud.default_provider === name;
  if (isConfigured || isDefault) {
    await changeConfig(paths, [
      { path: ['providers', name], value: undefined },
      ...(isDefault ? [{ path: ['cloud', 'default_provider'], value: undefined }] : []),
    ]);
  }
  const hadKey = await removeCredential(paths.credentialsFile, name);
  if (!isConfigured && !isDefault && !hadKey) {
    throw new SvcError('NOT_FOUND', `${JSON.stringify(name.slice(0, 80))} is not configured`, {
      hint: 'see which are: svc provider list',
    });
  }
  await askDaemonToReload();
  if (json) printJson({ removed: name, key_removed: hadKey });
  else print(`${name} is no longer configured${hadKey ? ', and its key is gone' : ''}`);
  const after = providersHere();
  const credential = providerNamed(name, after.config, after.keys)?.credential();
  if (credential?.present === true)
    say(`${credential.name ?? 'a key'} is still in the environment, so that it can be used`);
  return 0;
};

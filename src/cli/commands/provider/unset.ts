import { removeCredential } from '../../../home/credentials-file.ts';
import { resolvePaths } from '../../../home/paths.ts';
import { changeConfig } from '../../../config/settings.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { providerNamed } from '../../../providers/providers.ts';
import { jsonFlag, providerArgument, type Run, type Spec } from '../../spec.ts';
import { say } from '../../terminal/output.ts';
import { printResult } from '../../terminal/result.ts';
import { providersHere } from '../../machine/providers.ts';
import { reload } from '../../machine/reload.ts';

export const spec = {
  summary: 'Remove a provider from the config and delete its stored key',
  arguments: [providerArgument],
  flags: { json: jsonFlag },
  examples: ['svc provider unset openai'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ json }, { provider: name }) => {
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
      hint: 'list the configured providers: svc provider list',
    });
  }
  await reload();
  const text = `${name} is no longer configured${hadKey ? '; its key was deleted' : ''}`;
  printResult(json, { removed: name, key_removed: hadKey }, text);
  const after = providersHere();
  const credential = providerNamed(name, after.config, after.keys)?.credential();
  if (credential?.present === true)
    say(`${name} can still be used: ${credential.name ?? 'a key'} is in the environment`);
};

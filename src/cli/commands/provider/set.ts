import { catalogue, VARIABLE_NAME } from '../../../config/catalogue.ts';
import { PROVIDER_NAME } from '../../../protocol/routing.ts';
import { checkedKey, removeCredential, saveCredential } from '../../../home/credentials-file.ts';
import { resolvePaths } from '../../../home/paths.ts';
import { isLoopbackUrl, problemOfUrl } from '../../../config/provider-settings.ts';
import { changeConfig, type Change } from '../../../config/settings.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { ProviderRecord } from '../../../protocol/records.ts';
import { lacksKey, providerNamed, recordOf } from '../../../providers/providers.ts';
import { jsonFlag, providerArgument, type Flags, type Run, type Spec } from '../../spec.ts';
import { askSecret, say } from '../../terminal/output.ts';
import { printResult } from '../../terminal/result.ts';
import { fromDaemon } from '../../machine/models.ts';
import { findProvider, keyHint, likeName, providersHere, titleOf } from '../../machine/providers.ts';
import { reload } from '../../machine/reload.ts';
import { readInput } from '../../asking/stdin.ts';

export const spec = {
  summary: 'Configure a provider',
  detail: [
    'A provider that svc knows (`svc provider list --all`) needs only its key; on a terminal, svc asks for it. Settings that are not given again keep their values. A running daemon applies the change at once.',
    'A key is never an argument: type it, pipe it to standard input, or keep it in an environment variable of the daemon.',
  ],
  arguments: [{ ...providerArgument, completes: 'catalogue' }],
  flags: {
    kind: {
      kind: 'choice',
      choices: ['openai', 'anthropic', 'gemini', 'openai_compatible'],
      summary: 'API of a provider that svc does not know',
    },
    'base-url': { kind: 'strings', value: 'URL', summary: 'base URL; several make a cluster' },
    'api-key-env': { kind: 'string', value: 'VAR', summary: 'environment variable that holds the key' },
    'api-key-stdin': { kind: 'switch', summary: 'read the key from standard input and store it' },
    'default-model': { kind: 'string', value: 'MODEL', summary: 'model to use when none is named' },
    default: { kind: 'switch', summary: 'make it the default provider for --cloud' },
    json: jsonFlag,
  },
  examples: [
    'svc provider set openai',
    'cat key.txt | svc provider set anthropic --api-key-stdin --default',
    'svc provider set groq --api-key-env GROQ_API_KEY --default-model openai/gpt-oss-120b',
    'svc provider set rack --base-url http://10.0.0.5:8000/v1 --base-url http://10.0.0.6:8000/v1',
  ],
} as const satisfies Spec;

export const run: Run<typeof spec> = async (flags, { provider: name }) => {
  check(name, flags);
  const paths = resolvePaths();
  const before = providersHere();
  const key = flags['api-key-stdin'] ? await readKey(name) : await askForKey(name, flags);
  const urls =
    flags['base-url'].length > 0
      ? flags['base-url']
      : (providerNamed(name, before.config, before.keys)?.endpoints ?? []);
  if (key !== undefined) refusePlainHttp(urls);

  await changeConfig(paths, changesOf(name, flags, key, Object.hasOwn(before.config.providers, name)));
  if (key !== undefined) await saveCredential(paths.credentialsFile, name, key);
  else if (flags['api-key-env'] !== undefined) await removeCredential(paths.credentialsFile, name);

  await reload();
  const here = recordOf(findProvider(name, providersHere()));
  // undefined: no daemon is running, or it does not have the provider.
  const running = (await fromDaemon((client) => client.providers()).catch(() => undefined))?.find(
    (each) => each.name === name,
  );
  const record = running ?? here;
  printResult(flags.json, record, describe(record));
  warn(here, running);
};

/** Checks the flags before anything is read or written. Errors never repeat a value: it may be a misplaced key. */
function check(name: string, flags: Flags<typeof spec>): void {
  if (!PROVIDER_NAME.test(name)) {
    throw new SvcError('INVALID_REQUEST', `${JSON.stringify(name.slice(0, 80))} is not a valid provider name`, {
      hint: 'use lower-case letters, digits and dashes; `local` is reserved for this machine',
    });
  }
  const variable = flags['api-key-env'];
  if (variable !== undefined && flags['api-key-stdin']) {
    throw new SvcError('INVALID_REQUEST', '--api-key-env and --api-key-stdin exclude each other', {
      hint: 'give one of them',
    });
  }
  if (variable !== undefined && !VARIABLE_NAME.test(variable)) {
    throw new SvcError('INVALID_REQUEST', '--api-key-env must be the name of an environment variable, in capitals', {
      hint: `pipe the key itself to standard input: svc provider set ${name} --api-key-stdin`,
    });
  }
  for (const url of flags['base-url']) {
    const problem = problemOfUrl(url);
    if (problem !== undefined) throw new SvcError('INVALID_REQUEST', `--base-url ${problem}`);
  }
  const { config } = providersHere();
  const isKnown = catalogue().has(name) || Object.hasOwn(config.providers, name);
  const isLike = flags.kind !== undefined && flags.kind !== 'openai_compatible';
  if (isKnown || isLike || flags['base-url'].length > 0) return;
  throw new SvcError('INVALID_REQUEST', `unknown provider ${JSON.stringify(name)}: give its address with --base-url`, {
    hint: likeName(name, config),
  });
}

async function readKey(name: string): Promise<string> {
  const typed = await askSecret(`${titleOf(name)} API key (hidden)`);
  return checkedKey(typed ?? (await readInput(2 * LIMITS.providerKeyLength)));
}

/** Asks for a missing key on a terminal, unless the flags say where it comes from. An empty line skips it. */
async function askForKey(name: string, flags: Flags<typeof spec>): Promise<string | undefined> {
  if (flags.json || flags['api-key-env'] !== undefined || flags['base-url'].length > 0) return undefined;
  const { config, keys } = providersHere();
  const provider = providerNamed(name, config, keys);
  if (provider === undefined || !lacksKey({ credential: provider.credential() })) return undefined;
  const typed = await askSecret(`${titleOf(name)} API key (hidden; press Enter to skip)`);
  return typed === undefined || typed.trim() === '' ? undefined : checkedKey(typed);
}

function refusePlainHttp(urls: readonly string[]): void {
  if (urls.every((url) => url.startsWith('https:') || isLoopbackUrl(url))) return;
  throw new SvcError('INVALID_REQUEST', 'a key is never sent over plain http to another machine', {
    hint: 'use an https:// URL, or set no key',
  });
}

function changesOf(name: string, flags: Flags<typeof spec>, key: string | undefined, isThere: boolean): Change[] {
  const { kind, 'base-url': urls, 'api-key-env': variable, 'default-model': model } = flags;
  const at = (setting: string, value: unknown): Change => ({ path: ['providers', name, setting], value });
  return [
    ...(isThere ? [] : [{ path: ['providers', name], value: {} }]),
    ...(kind === undefined ? [] : [at('kind', kind)]),
    ...(urls.length === 0 ? [] : [at('base_url', urls.length === 1 ? urls[0] : urls)]),
    ...(variable === undefined ? [] : [at('api_key_env', variable)]),
    // A key given now replaces the variable.
    ...(key === undefined ? [] : [at('api_key_env', undefined)]),
    ...(model === undefined ? [] : [at('default_model', model)]),
    ...(flags.default ? [{ path: ['cloud', 'default_provider'], value: name }] : []),
  ];
}

function describe({ name, endpoints, default_model, default_cloud }: ProviderRecord): string {
  const model = default_model === null ? 'no default model' : `default model ${default_model}`;
  return `${name}: ${endpoints.join(', ')}, ${model}${default_cloud ? ', the default of --cloud' : ''}`;
}

/** Warns if a key is still missing, here or in the running daemon. */
function warn(here: ProviderRecord, running: ProviderRecord | undefined): void {
  if (running !== undefined && lacksKey(running) && here.credential.present) {
    say(
      `the running daemon was started without ${here.credential.name ?? 'the key'}: svc restart; or store the key: svc provider set ${here.name} --api-key-stdin`,
    );
  } else if (lacksKey(running ?? here)) {
    say(`there is no key for ${here.name} yet: ${keyHint(running ?? here)}`);
  }
}

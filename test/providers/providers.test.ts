/** Which providers are active, their settings, and the source of their keys. */
import { chmodSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { Provider } from '../../src/backends/cloud/provider.ts';
import { catalogue } from '../../src/config/catalogue.ts';
import { parseConfig, type Config } from '../../src/config/config.ts';
import { saveCredential } from '../../src/home/credentials-file.ts';
import { engineEnvironment } from '../../src/process/environment.ts';
import { ProviderKeys } from '../../src/providers/provider-keys.ts';
import { lacksKey, providerNamed, providersInUse, recordOf } from '../../src/providers/providers.ts';
import { rejection } from '../support/errors.ts';
import { makeHome, type Home } from '../support/home.ts';

interface Context {
  home: Home;
  file: string;
  keys: ProviderKeys;
}
const VARIABLES = [...catalogue().values()].flatMap(({ key_variables }) => key_variables);
const before = { ...process.env };

const test = suite<Context>('providers');
test.before.each(async (context) => {
  for (const name of [...VARIABLES, 'MY_LLM', 'SVC_LLM']) Reflect.deleteProperty(process.env, name);
  context.home = await makeHome();
  context.file = join(context.home.dir, 'credentials.json');
  context.keys = new ProviderKeys(context.file);
});
test.after.each(({ home }) => home.remove());
test.after(() => {
  process.env = before;
});

function configOf(config: object): Config {
  const { config: read, problems } = parseConfig(JSON.stringify(config));
  assert.equal(problems, []);
  return read;
}
const namesOf = (config: object, keys: ProviderKeys): string[] =>
  providersInUse(configOf(config), keys).map(({ name }) => name);

test('active providers: those in the config, those with a key, and the default', async ({ keys, file }) => {
  assert.equal(namesOf({}, keys), []);
  assert.equal(namesOf({ providers: { groq: {} } }, keys), ['groq']);
  assert.equal(namesOf({ cloud: { default_provider: 'mistral' } }, keys), ['mistral']);
  process.env['ANTHROPIC_API_KEY'] = 'k';
  await saveCredential(file, 'openai', 'k');
  assert.equal(namesOf({ providers: { groq: {} } }, keys), ['groq', 'openai', 'anthropic']);
});

test("Claude Code's token, which is often that of a gateway, is no key for Anthropic", ({ keys }) => {
  process.env['ANTHROPIC_AUTH_TOKEN'] = 'k';
  const config = configOf({ providers: { anthropic: {} } });
  const { name, present } = providerNamed('anthropic', config, keys)!.credential();
  Reflect.deleteProperty(process.env, 'ANTHROPIC_AUTH_TOKEN');
  assert.equal([name, present], ['ANTHROPIC_API_KEY', false]);
});

test('a general-purpose token activates no provider, but an active provider uses it', ({ keys }) => {
  process.env['GITHUB_TOKEN'] = 'k';
  assert.equal(namesOf({}, keys), []);
  const config = configOf({ providers: { 'github-models': {} } });
  assert.equal(providerNamed('github-models', config, keys)?.credential(), {
    source: 'env',
    name: 'GITHUB_TOKEN',
    present: true,
  });
});

test('the config overrides the catalogue', ({ keys }) => {
  const plain = providerNamed('openai', configOf({}), keys);
  assert.equal(plain?.endpoints, ['https://api.openai.com/v1']);
  assert.equal(
    [plain?.kind, plain?.api, plain?.isDeclared, plain?.enabled],
    ['openai', 'chat_completions', false, true],
  );
  const set = providerNamed(
    'openai',
    configOf({
      providers: {
        openai: {
          base_url: ['http://127.0.0.1:1/v1', 'http://127.0.0.1:2/v1'],
          api: 'responses',
          default_model: 'mine',
          embedding_model: 'vectors',
          enabled: false,
          concurrency: 3,
          idle_timeout_seconds: 7,
          headers: { 'x-team': 'a' },
        },
      },
      cloud: { default_provider: 'openai' },
    }),
    keys,
  );
  assert.equal(JSON.parse(JSON.stringify(set)), {
    name: 'openai',
    kind: 'openai',
    api: 'responses',
    endpoints: ['http://127.0.0.1:1/v1', 'http://127.0.0.1:2/v1'],
    defaultModel: 'mine',
    embeddingModel: 'vectors',
    quirks: { ...plain?.quirks, headers: { 'x-team': 'a' } },
    isDeclared: true,
    concurrency: 3,
    idleTimeoutMs: 7000,
    enabled: false,
    isDefaultCloud: true,
  });
});

test('a second account, a gateway and a self-hosted server can be configured', ({ keys }) => {
  const config = configOf({
    providers: { team: { kind: 'anthropic' }, gate: { base_url: 'https://gate.example/v1' }, ollama: {} },
  });
  const named = (name: string): Provider => {
    const provider = providerNamed(name, config, keys);
    assert.ok(provider);
    return provider;
  };
  const [team, gate, ollama] = [named('team'), named('gate'), named('ollama')];
  assert.equal([team.endpoints, team.api], [['https://api.anthropic.com'], 'messages']);
  assert.is(lacksKey(recordOf(team)), true);
  assert.equal([gate.kind, gate.isDeclared, lacksKey(recordOf(gate))], ['openai_compatible', true, false]);
  assert.equal([ollama.isDeclared, ollama.credential().source], [true, 'none']);
  assert.is(providerNamed('azure', configOf({}), keys), undefined);
  assert.is(providerNamed('nobody', configOf({}), keys), undefined);
  assert.is(providerNamed('constructor', configOf({}), keys), undefined);
});

test('the first source that has a key is used; an explicitly named variable excludes the others', async ({
  keys,
  file,
}) => {
  const read = async (settings: object): Promise<[string | null, string]> => {
    const provider = providerNamed('openai', configOf({ providers: { openai: settings } }), keys);
    assert.ok(provider);
    return [await provider.readKey(), provider.credential().source];
  };
  assert.equal(await read({}), [null, 'env']);
  keys.lend('openai', 'lent');
  assert.equal(await read({}), ['lent', 'memory']);
  process.env['OPENAI_API_KEY'] = 'usual';
  assert.equal(await read({}), ['usual', 'env']);
  await saveCredential(file, 'openai', 'stored');
  assert.equal(await read({}), ['stored', 'file']);
  assert.equal(await read({ api_key_env: 'MY_LLM' }), ['lent', 'memory']);
  process.env['MY_LLM'] = ' named ';
  assert.equal(await read({ api_key_env: 'MY_LLM' }), ['named', 'env']);
});

test('an unusable credentials file: the record shows no key, and reading the key reports why', async ({
  keys,
  file,
}) => {
  if (process.platform === 'win32') return;
  await saveCredential(file, 'openai', 'stored');
  chmodSync(file, 0o644);
  const provider = providerNamed('openai', configOf({}), keys);
  assert.is(provider?.credential().present, false);
  await rejection(() => provider?.readKey(), 'CONFIG_INVALID');
});

test('a key is not sent to another machine over plain http', async ({ keys }) => {
  process.env['MY_LLM'] = 'k';
  const at = (base_url: string) =>
    providerNamed('x', configOf({ providers: { x: { base_url, api_key_env: 'MY_LLM' } } }), keys);
  assert.is(await at('http://127.0.0.1:1/v1')?.readKey(), 'k');
  await rejection(() => at('http://10.0.0.5:1/v1')?.readKey(), 'CONFIG_INVALID', /plain http/);
});

test('an engine gets none of the variables that are read for keys, whatever their name', async ({ keys }) => {
  process.env['SVC_LLM'] = 'k';
  assert.is(engineEnvironment({})['SVC_LLM'], 'k');
  const config = configOf({ providers: { x: { base_url: 'https://a.example', api_key_env: 'SVC_LLM' } } });
  assert.is(await providerNamed('x', config, keys)?.readKey(), 'k');
  assert.is(engineEnvironment({})['SVC_LLM'], undefined);
});

test.run();

/** The section `providers` of the config file, and its settings. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { parseConfig } from '../../src/config/config.ts';
import { problemOfUrl } from '../../src/config/provider-settings.ts';
import {
  changeConfig,
  listSettings,
  namedSettings,
  readSetting,
  setSetting,
  settingNames,
  unsetSetting,
} from '../../src/config/settings.ts';
import { rejection } from '../support/errors.ts';
import { makeHome, type Home } from '../support/home.ts';

const SECRET = 'sk-very-secret-0123456789';

const test = suite<{ home: Home; configFile: string; write(text: string): void; read(): string }>('provider settings');
test.before.each(async (context) => {
  context.home = await makeHome();
  context.configFile = join(context.home.dir, 'config', 'config.json');
  context.write = (text) => {
    mkdirSync(dirname(context.configFile), { recursive: true });
    writeFileSync(context.configFile, text);
  };
  context.read = () => readFileSync(context.configFile, 'utf8');
});
test.after.each(({ home }) => home.remove());

const problemsOf = (providers: unknown): string[] =>
  parseConfig(JSON.stringify({ providers })).problems.map(({ message }) => message);

test('a catalogue provider needs no settings; any other needs a base URL', () => {
  assert.equal(problemsOf({ openai: {}, groq: { enabled: false }, ollama: {} }), []);
  assert.equal(problemsOf({ mine: { base_url: 'https://llm.example.com/v1' }, team: { kind: 'anthropic' } }), []);
  assert.match(problemsOf({ mine: {} })[0] ?? '', /^"providers.mine" needs a base_url/);
  assert.match(problemsOf({ azure: {} })[0] ?? '', /of the form https:\/\/RESOURCE/);
  assert.match(problemsOf({ mine: { kind: 'openai_compatible' } })[0] ?? '', /needs a base_url/);
});

test('invalid settings are reported with line and column', () => {
  const { problems } = parseConfig(
    '{\n  "providers": {\n    "openai": { "kind": "other",\n      "modle": 1 }\n  }\n}\n',
  );
  assert.equal(
    problems.map(({ line, column, message }) => `${String(line)}:${String(column)} ${message}`),
    [
      '3:25 "providers.openai.kind" must be one of openai, anthropic, gemini, openai_compatible',
      '4:7 unknown key "providers.openai.modle"',
    ],
  );
  for (const [providers, words] of [
    [[], /"providers" must be an object/],
    [{ openai: 7 }, /"providers.openai" must be an object/],
    [{ local: { base_url: 'https://a.example' } }, /cannot be the name of a provider/],
    [{ 'a.b': { base_url: 'https://a.example' } }, /cannot be the name of a provider/],
    [{ openai: { base_url: 7 } }, /must be a URL or a list of URLs/],
    [{ openai: { base_url: [] } }, /must not be empty/],
    [{ openai: { base_url: ['https://a.example', 'https://a.example'] } }, /has a URL twice/],
    [{ openai: { base_url: ['https://a.example', 'nonsense'] } }, /base_url.1" must be a URL/],
    [{ openai: { concurrency: 0 } }, /must be at least 1/],
    [{ openai: { tokens_per_day: 1.5 } }, /must be a whole number/],
  ] as const) {
    assert.match(problemsOf(providers)[0] ?? 'nothing', words, JSON.stringify(providers));
  }
});

test('the default for --cloud must be a configured provider', () => {
  const first = (text: string): string | undefined => parseConfig(text).problems[0]?.message;
  assert.is(first('{"cloud": {"default_provider": "openai"}}'), undefined);
  assert.is(
    first('{"cloud": {"default_provider": "x"}, "providers": {"x": {"base_url": "https://a.example"}}}'),
    undefined,
  );
  assert.match(first('{"cloud": {"default_provider": "opnai"}}') ?? '', /must be the name of a provider/);
});

test('a key in the config file is refused with the command that stores it, and not repeated', () => {
  for (const settings of [
    { api_key: SECRET },
    { token: SECRET },
    { api_key_env: SECRET },
    { headers: { authorization: `Bearer ${SECRET}` } },
    { headers: { 'x-api-key': SECRET } },
    { base_url: `https://user:${SECRET}@a.example/v1` },
    { base_url: `https://a.example/v1?key=${SECRET}` },
  ]) {
    const problems = problemsOf({ openai: settings });
    assert.ok(problems.length > 0, Object.keys(settings).join());
    assert.not.ok(problems.join().includes(SECRET));
  }
  assert.match(problemsOf({ openai: { api_key: SECRET } })[0] ?? '', /svc provider set openai --api-key-stdin/);
});

test('base URLs need https, except on this machine and private networks', () => {
  for (const url of [
    'https://api.example.com/v1',
    'http://localhost:8000/v1',
    'http://127.0.0.1:1',
    'http://[::1]:8000/v1',
    'http://10.0.0.5:8000/v1',
    'http://192.168.1.2/v1',
    'http://[fd00::1]/v1',
    'http://gpu-box:8000/v1',
    'http://vllm.default.svc:8000/v1',
  ]) {
    assert.is(problemOfUrl(url), undefined, url);
  }
  for (const [url, words] of [
    ['http://example.com/v1', /https/],
    ['http://93.184.216.34/v1', /https/],
    ['http://172.32.0.1/v1', /https/],
    ['ftp://example.com', /https/],
    ['https://example.com/v1/', /slash/],
    ['https://example.com/', /slash/],
    ['https://example.com/v1?a=b', /no \?/],
    ['https://example.com/v1#a', /no #/],
    ['example.com', /URL/],
  ] as const) {
    assert.match(problemOfUrl(url) ?? 'nothing', words, url);
  }
});

test('settings below a user-chosen name can be listed, read, set and unset; comments are kept', async ({
  write,
  read,
  configFile,
}) => {
  const paths = { configFile };
  write('{\n  // ours\n  "providers": {\n    "openai": { "default_model": "a" } // the first\n  }\n}\n');
  const shown = listSettings(paths).filter(({ name }) => name.startsWith('providers.'));
  assert.equal(
    shown.map(({ name, value, origin }) => [name, value, origin]),
    [
      ['providers.openai.default_model', 'a', 'file'],
      ['providers.openai.enabled', true, 'default'],
      ['providers.openai.idle_timeout_seconds', 300, 'default'],
    ],
  );
  assert.is(readSetting(paths, 'providers.openai.default_model').at, `${configFile}:4:34`);
  assert.is(readSetting(paths, 'providers.openai.concurrency').value, null);
  assert.is(readSetting(paths, 'providers.groq.enabled').value, null);

  await setSetting(paths, 'providers.openai.default_model', 'b');
  await setSetting(paths, 'providers.groq.concurrency', '4');
  await setSetting(paths, 'providers.rack.base_url', '["http://10.0.0.5:1/v1", "http://10.0.0.6:1/v1"]');
  assert.match(read(), /\/\/ ours\n[^]*"openai": \{ "default_model": "b" \}, \/\/ the first\n/);
  assert.equal(readSetting(paths, 'providers.rack.base_url').value, ['http://10.0.0.5:1/v1', 'http://10.0.0.6:1/v1']);
  assert.is(readSetting(paths, 'providers.groq.concurrency').value, 4);
  assert.is(await unsetSetting(paths, 'providers.rack'), true);
  assert.not.match(read(), /rack/);
});

test('invalid setting names: a suggestion is made, and keys cannot be set', async ({ configFile }) => {
  const paths = { configFile };
  const hintOf = async (name: string): Promise<string> =>
    (await rejection(() => setSetting(paths, name, SECRET), 'INVALID_REQUEST')).hint ?? 'nothing';
  assert.match(await hintOf('providers.openai.defaultmodel'), /did you mean "providers\.openai\.default_model"/);
  assert.match(await hintOf('providers.openai'), /providers\.NAME has: kind/);
  assert.match(await hintOf('providers.openai.api_key'), /svc provider set openai --api-key-stdin/);
  await rejection(() => setSetting(paths, 'providers.Open AI.kind', 'openai'), 'INVALID_REQUEST', /no setting/);
  await rejection(() => readSetting(paths, 'providers.openai.nothing'), 'INVALID_REQUEST');
  assert.not.ok((await hintOf('providers.openai.api_key')).includes(SECRET));
});

test('every setting below a name belongs to a configured name', () => {
  const ofProviders = namedSettings().filter((name) => name.startsWith('providers.'));
  const expected = ofProviders.map((name) => name.replace('.NAME.', '.mine.'));
  const added = settingNames({ providers: { mine: {} } }).filter((name) => !settingNames().includes(name));
  assert.equal(added, expected);
});

test('several changes are applied together or not at all', async ({ write, read, configFile }) => {
  const paths = { configFile };
  write('{ "http": { "port": 1 } }\n');
  const wrong = [
    { path: ['providers', 'openai', 'default_model'], value: 'a' },
    { path: ['providers', 'openai', 'concurrency'], value: -1 },
  ];
  await rejection(() => changeConfig(paths, wrong), 'INVALID_REQUEST');
  assert.is(read(), '{ "http": { "port": 1 } }\n');
  assert.is(await changeConfig(paths, wrong.slice(0, 1)), true);
  assert.is(await changeConfig(paths, wrong.slice(0, 1)), false);
  write('{ "htp": {} }\n');
  await rejection(() => changeConfig(paths, wrong.slice(0, 1)), 'CONFIG_INVALID');
  assert.is(read(), '{ "htp": {} }\n');
});

test.run();

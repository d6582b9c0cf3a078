/** What `svc launch` gives to each agent, and how it starts programs on Windows. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { AGENT_NAMES, AGENTS, type Agent, type Connection } from '../../../src/cli/commands/launch/agents.ts';
import { recommended } from '../../../src/cli/commands/launch/choose-model.ts';
import { batchArguments } from '../../../src/process/batch-file.ts';
import { pastProxies } from '../../../src/cli/commands/launch/past-proxies.ts';
import { KEY_OF_SHELL, shellCommand } from '../../../src/cli/commands/launch/shell-command.ts';
import { findInCatalogue } from '../../../src/models/pull/catalogue.ts';
import { read } from '../../architecture/source-files.ts';

const KEY = 'svc_secret';
const connection: Connection = { url: 'http://[::1]:7117', key: KEY, model: 'qwen3-8b', contextLength: 65_536 };

test('every agent of the table can be named', () => {
  assert.equal([...AGENT_NAMES], Object.keys(AGENTS));
});

test('a key is in one variable, and in no argument', () => {
  for (const [name, { settings }] of Object.entries<Agent>(AGENTS)) {
    const { args, variables } = settings(connection);
    assert.not.ok(args.join(' ').includes(KEY), name);
    assert.is(Object.values(variables).filter((value) => value?.includes(KEY)).length, 1, name);
  }
});

test('an unknown context is not set', () => {
  for (const [name, { settings }] of Object.entries<Agent>(AGENTS)) {
    const { args, variables } = settings({ ...connection, contextLength: null });
    assert.not.match(JSON.stringify([args, variables]), /null|NaN|TOKENS|WINDOW|_window|"limit|\\"limit/, name);
  }
});

test('Claude Code: its window for compaction is set only where it accepts it', () => {
  const of = (contextLength: number): Readonly<Record<string, string | undefined>> =>
    AGENTS.claude.settings({ ...connection, contextLength }).variables;
  assert.is(of(65_536)['CLAUDE_CODE_MAX_CONTEXT_TOKENS'], '65536');
  assert.is(of(65_536)['CLAUDE_CODE_MAX_OUTPUT_TOKENS'], '16384');
  assert.is(of(65_536)['CLAUDE_CODE_AUTO_COMPACT_WINDOW'], undefined);
  assert.is(of(131_072)['CLAUDE_CODE_AUTO_COMPACT_WINDOW'], '131072');
});

test('Claude Code: the guide to setting it up by hand has every variable that names a model', () => {
  const guide = read('docs/guides/coding-agents.md');
  const named = Object.entries(AGENTS.claude.settings(connection).variables).filter(
    ([, value]) => value === 'qwen3-8b',
  );
  assert.ok(named.length > 1);
  for (const [name] of named) assert.match(guide, `\`${name}\``);
});

test('Codex: values are TOML, whatever the name of the model', () => {
  const { args } = AGENTS.codex.settings({ ...connection, model: 'a "b"\\c' });
  assert.ok(args.includes('model="a \\"b\\"\\\\c"'));
  assert.ok(args.includes('model_providers.svc.base_url="http://[::1]:7117/v1"'));
  assert.ok(args.includes('model_context_window=65536'));
});

test('Copilot: prompt and answer together are the context', () => {
  const { variables } = AGENTS.copilot.settings({ ...connection, contextLength: 32_768 });
  const { COPILOT_PROVIDER_MAX_PROMPT_TOKENS: prompt, COPILOT_PROVIDER_MAX_OUTPUT_TOKENS: output } = variables;
  assert.equal([prompt, output], ['24576', '8192']);
});

test('opencode: a name with a slash is one model', () => {
  const { variables } = AGENTS.opencode.settings({ ...connection, model: 'openai/gpt' });
  const config = JSON.parse(variables['OPENCODE_CONFIG_CONTENT'] ?? '');
  assert.equal(Object.keys(config.provider.svc.models), ['openai/gpt']);
  assert.is(config.model, 'svc/openai/gpt');
  assert.equal(config.provider.svc.models['openai/gpt'].limit, { context: 65_536, output: 16_384 });
});

test('the catalogue has a model for every agent, on small and large machines', () => {
  for (const { leastContext } of Object.values<Agent>(AGENTS)) {
    const names = [1, 16, 64, 1024].map((gigabytes) => recommended({ leastContext }, gigabytes * 2 ** 30));
    const sizes = names.map((name) => {
      const entry = findInCatalogue(name);
      assert.ok(entry !== null && entry.context_length >= leastContext, name);
      return entry.parameters_billions;
    });
    assert.equal(
      sizes,
      [...sizes].sort((a, b) => a - b),
    );
    assert.ok(sizes[0]! < sizes[3]!);
  }
});

test('no proxy is between an agent and svc, and the entries of the user stay', () => {
  const of = (set: Readonly<Record<string, string>>, url = 'http://10.0.0.5:7117'): readonly string[] => {
    for (const name of ['NO_PROXY', 'no_proxy']) Reflect.deleteProperty(process.env, name);
    Object.assign(process.env, set);
    const { NO_PROXY, no_proxy } = pastProxies(url);
    return [NO_PROXY, no_proxy];
  };
  const own = '10.0.0.5,localhost,127.0.0.1,::1,[::1]';
  assert.equal(of({}), [own, own]);
  assert.equal(of({ NO_PROXY: 'a.example, .b' }), [`a.example, .b,${own}`, `a.example, .b,${own}`]);
  assert.equal(of({ NO_PROXY: 'upper', no_proxy: 'lower' }), [`upper,${own}`, `lower,${own}`]);
  assert.equal(of({ no_proxy: '*' }), ['*', '*']);
  assert.is(of({}, 'http://[fd00::5]:7117')[0], '[fd00::5],fd00::5,localhost,127.0.0.1,::1,[::1]');
  assert.is(of({}, 'http://127.0.0.1:7117')[0], '127.0.0.1,localhost,::1,[::1]');
});

test('--print quotes for a shell, and takes the key from a variable', () => {
  const variables = { A: 'plain', B: "it's $HOME", C: KEY_OF_SHELL, D: undefined };
  assert.is(
    shellCommand('agent', { args: ['-c', 'x="y"'], variables }, ['', '-p', 'a b']),
    `env \\\n  -u D \\\n  A=plain \\\n  B='it'\\''s $HOME' \\\n  C="$SVC_API_KEY" \\\n  agent -c 'x="y"' '' -p 'a b'`,
  );
});

test('a batch file gets its arguments as they are: quoted for the program, escaped twice for cmd', () => {
  const of = (arg: string): string => batchArguments('C:\\npm\\codex.cmd', [arg])[3] ?? '';
  assert.equal(batchArguments('C:\\Program Files\\codex.cmd', []), [
    '/d',
    '/s',
    '/c',
    '"C:\\Program^ Files\\codex.cmd"',
  ]);
  assert.is(of('plain'), '"C:\\npm\\codex.cmd ^^^"plain^^^""');
  assert.is(of('a="b"'), '"C:\\npm\\codex.cmd ^^^"a=\\^^^"b\\^^^"^^^""');
  assert.is(of('C:\\dir\\'), '"C:\\npm\\codex.cmd ^^^"C:\\dir\\\\^^^""');
  assert.is(of('\\"'), '"C:\\npm\\codex.cmd ^^^"\\\\\\^^^"^^^""');
  assert.is(of('%PATH% & del'), '"C:\\npm\\codex.cmd ^^^"^^^%PATH^^^%^^^ ^^^&^^^ del^^^""');
});

test.run();

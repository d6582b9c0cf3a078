/** `svc launch` with programs that stand for the agents, and a real daemon with local models. */
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { AGENT_NAMES, AGENTS } from '../../../src/cli/commands/launch/agents.ts';
import { addKey, readKeyFile, removeKey } from '../../../src/home/key-file.ts';
import { assertExit } from '../../support/exit.ts';
import { spawnDaemon, type DaemonProcess } from '../../support/daemon.ts';
import { makeHome, type Home } from '../../support/home.ts';
import { modelPath } from '../../support/native-engine.ts';
import { endServing } from '../../support/serving.ts';
import { unless } from '../../support/skip.ts';
import { spawnSvc, svc, SVC_COMMAND, type RunningSvc, type SvcResult } from '../../support/svc.ts';
import { modelWithTemplate } from '../../support/template-model.ts';
import { KEYS, NO_TERMINAL, Terminal } from '../../support/terminal.ts';
import { waitFor } from '../../support/wait.ts';

const FAKE = join(import.meta.dirname, 'fake-agent.js');
/** One word: after two, Claude Code would take the user's prompt for the name of a tool. */
const NO_SEARCH = '--disallowedTools=WebSearch';
const WITH_TOOLS = new URL('../../../build/llama.cpp/models/templates/Qwen3.5-4B.jinja', import.meta.url);

let home: Home;
let daemon: DaemonProcess;
let env: Readonly<Record<string, string | undefined>>;
let keyFile: string;

test.before(async () => {
  home = await makeHome();
  keyFile = join(home.dir, 'data', 'keys.json');
  const bin = join(home.dir, 'bin');
  mkdirSync(bin);
  for (const name of AGENT_NAMES) {
    const program = join(bin, AGENTS[name].program);
    writeFileSync(program, `#!/bin/sh\nAGENT=${name} exec '${process.execPath}' '${FAKE}' "$@"\n`);
    chmodSync(program, 0o755);
  }
  env = { PATH: bin, SVC_API_KEY: undefined };
  await add('caller', await modelWithTemplate(readFileSync(WITH_TOOLS, 'utf8'), 'tiny-long'));
  daemon = await spawnDaemon(home).settled();
});
test.after(() => endServing({ home, daemon }));

async function add(name: string, model: Buffer | string): Promise<void> {
  const path = typeof model === 'string' ? model : join(home.dir, `${name}.gguf`);
  if (typeof model !== 'string') writeFileSync(path, model);
  const { code, stderr } = await svc(['model', 'add', path, '--name', name], { home });
  assert.is(code, 0, stderr);
}

const launch = (...args: string[]): Promise<SvcResult> => svc(['launch', ...args], { home, env });

async function launched(...args: string[]): Promise<any> {
  const { code, stdout, stderr } = await launch(...args);
  assert.is(code, 0, stderr);
  return JSON.parse(stdout);
}

for (const name of AGENT_NAMES)
  test(`${name} is answered by the model that suffices, which is not the default one`, async () => {
    const { http, model } = await launched(name, '--', 'ask');
    assert.is(http, 200);
    assert.is(model, 'caller');
  });

test('words after -- are passed on unchanged, after those of svc', async () => {
  const words = ['show', '--model', 'other', '--help', '--', "it's $HOME", ''];
  // A name is found in any case, as elsewhere.
  assert.equal((await launched('opencode', '-m', 'Caller', '--', ...words)).words, words);
  const { words: all } = await launched('codex', '--', ...words);
  assert.equal(all.slice(-words.length), words);
  assert.is(all[0], '-c');
  const { words: own } = await launched('claude', '--', 'fix it');
  assert.equal(own, [NO_SEARCH, 'fix it']);
});

test('the agent gets the real context of the loaded model, and nothing that points it elsewhere', async () => {
  env = { ...env, ANTHROPIC_API_KEY: 'sk-real', CLAUDE_CODE_USE_BEDROCK: '1', EDITOR: 'ed' };
  try {
    const { env: got } = await launched('claude', '--', 'show');
    const { context_length: length } = (await daemon.client.models()).find(({ id }) => id === 'caller')?.loaded ?? {};
    assert.is(got.CLAUDE_CODE_MAX_CONTEXT_TOKENS, String(length));
    assert.is(got.ANTHROPIC_API_KEY, undefined);
    assert.is(got.CLAUDE_CODE_USE_BEDROCK, undefined);
    assert.is(got.EDITOR, 'ed');
  } finally {
    env = { PATH: env['PATH'], SVC_API_KEY: undefined };
  }
});

test('a proxy for http gets nothing of what an agent sends to svc', async () => {
  const proxies = { HTTP_PROXY: 'http://proxy.invalid:3128', NO_PROXY: 'corp.example', no_proxy: undefined };
  env = { ...env, ...proxies };
  try {
    for (const name of AGENT_NAMES) {
      const { env: got } = await launched(name, '-m', 'caller', '--', 'show');
      for (const variable of ['NO_PROXY', 'no_proxy']) {
        assert.equal(got[variable].split(',').slice(0, 2), ['corp.example', '127.0.0.1'], `${name}: ${variable}`);
      }
    }
    const { stdout } = await launch('claude', '--print');
    for (const variable of ['NO_PROXY', 'no_proxy']) assert.match(stdout, `${variable}='corp.example,127.0.0.1,`);
  } finally {
    env = { PATH: env['PATH'], SVC_API_KEY: undefined };
  }
});

test('with API keys the agent gets one of its own in a variable, which ends with it', async () => {
  await addKey(keyFile, 'other', 'inference');
  try {
    for (const name of AGENT_NAMES) assert.is((await launched(name, '--', 'ask')).http, 200, name);
    const { words, env: got } = await launched('codex', '--', 'show');
    const key: string = got.SVC_API_KEY;
    assert.match(key, /^svc_/);
    assert.not.ok(words.join(' ').includes(key));
    assert.equal(
      readKeyFile(keyFile).map(({ name }) => name),
      ['other'],
    );

    const { key: mine } = await addKey(keyFile, 'mine', 'local');
    env = { ...env, SVC_API_KEY: mine };
    assert.is((await launched('claude', '--', 'show')).env.ANTHROPIC_AUTH_TOKEN, mine);
    await removeKey(keyFile, 'mine');
  } finally {
    env = { ...env, SVC_API_KEY: undefined };
    await removeKey(keyFile, 'other');
  }
});

test('the key of a running agent is limited, and is removed when a signal ends the agent', async () => {
  await addKey(keyFile, 'other', 'inference');
  try {
    const { child, result } = await waiting();
    const made = readKeyFile(keyFile).find(({ name }) => name.startsWith('launch-claude-'));
    assert.is(made?.scope, 'inference');
    assert.ok(Date.parse(made!.expires_at ?? '') > Date.now());
    child.kill('SIGTERM');
    await result;
    assert.is(readKeyFile(keyFile).length, 1);
  } finally {
    await removeKey(keyFile, 'other');
  }
});

test('exit codes and signals of the agent are those of svc launch', async () => {
  assertExit(await launch('claude', '--', 'exit', '7'), 7);
  assert.is((await launch('claude', '--', 'die', 'SIGKILL')).code, 128 + 9);
});

test('signals are passed on to the agent, which decides when to end', async () => {
  const { child, stdout, result } = await waiting();
  for (const signal of ['SIGINT', 'SIGHUP'] as const) {
    child.kill(signal);
    await waitFor(`the agent to get ${signal}`, () => stdout().includes(`got ${signal}`));
  }
  child.kill('SIGTERM');
  const { code, stdout: all } = await result;
  assert.is(code, 9);
  assert.is(all, 'waiting\ngot SIGINT\ngot SIGHUP\ngot SIGTERM\n');
});

unless(NO_TERMINAL, test)('Ctrl-C on a terminal reaches the agent once', async () => {
  const terminal = new Terminal([...SVC_COMMAND, 'launch', 'claude', '--', 'wait'], {
    ...home.env,
    ...env,
    PATH: pathOfBoth(),
  });
  try {
    await terminal.shows('waiting');
    terminal.type(KEYS.ctrlC);
    await terminal.shows('got SIGINT');
    terminal.type(KEYS.ctrlC);
    const screen = await terminal.shows(/got SIGINT[^]*got SIGINT/);
    assert.is(screen.split('got SIGINT').length, 3);
  } finally {
    terminal.type(KEYS.enter);
    await terminal.shows('got a line');
    await terminal.end();
  }
});

/** `script` itself is looked up, too. */
const pathOfBoth = (): string => [env['PATH'], process.env['PATH']].join(':');

async function waiting(): Promise<RunningSvc> {
  const running = spawnSvc(['launch', 'claude', '--', 'wait'], { home, env });
  await waitFor('the agent to start', () => running.stdout().includes('waiting'));
  return running;
}

test('an agent that is not installed is refused with the command that installs it', async () => {
  env = { ...env, PATH: join(home.dir, 'data') };
  try {
    const { code, stderr } = await launch('opencode');
    assert.is(code, 1);
    assert.match(stderr, /opencode is not installed/);
    assert.match(stderr, /hint: install it: npm install -g opencode-ai/);
  } finally {
    env = { ...env, PATH: join(home.dir, 'bin') };
  }
});

test('a model that does not suffice is refused with one that does', async () => {
  await add('plain', modelPath('tiny-llama'));
  await add('mute', await modelWithTemplate("{% for m in messages %}{{ m['content'] }}{% endfor %}", 'tiny-long'));
  for (const [model, why] of [
    ['plain', /its context has [\d,]+ tokens, of 65,536 that are needed/],
    ['mute', /its chat template has no form for tools/],
  ] as const) {
    const { code, stderr } = await launch('claude', '-m', model, '--', 'show');
    assert.is(code, 2, stderr);
    assert.match(stderr, why);
    assert.match(stderr, /hint: use --model caller/);
  }
  const missing = await launch('claude', '-m', 'nothing', '--', 'show');
  assertExit(missing, 1);
  assert.match(missing.stderr, /no model is named "nothing"/);
  const file = await launch('claude', '-m', './some.gguf', '--', 'show');
  assertExit(file, 2);
  assert.match(file.stderr, /svc model add/);
});

test('without a model that suffices, one of the catalogue is named', async () => {
  assertExit(await svc(['model', 'rm', 'caller', '--yes'], { home }), 0);
  const { code, stderr } = await launch('claude');
  assert.is(code, 1);
  assert.match(stderr, /no installed model suffices for Claude Code: it needs calls of tools and a context of 65,536/);
  assert.match(stderr, /hint: pull one: svc model pull [a-z0-9.-]+;/);
});

test('any model of a provider may be named, and policies', async () => {
  const set = ['provider', 'set', 'mine', '--base-url', 'http://127.0.0.1:9/v1', '--default-model', 'small'];
  assertExit(await svc(set, { home }), 0);
  for (const model of ['mine/small', 'mine/org/large']) {
    const { env: got } = await launched('claude', '-m', model, '--', 'show');
    assert.is(got.ANTHROPIC_MODEL, model);
    assert.is(got.CLAUDE_CODE_MAX_CONTEXT_TOKENS, undefined);
  }
  assert.is((await launched('opencode', '-m', 'mine/org/large', '--', 'show')).words.length, 1);
});

test('--print prints a command that does the same in a shell', async () => {
  await addKey(keyFile, 'other', 'inference');
  const { key } = await addKey(keyFile, 'printed', 'inference');
  try {
    const words = ['show', "it's $HOME"];
    const { code, stdout, stderr } = await launch('opencode', '-m', 'mine/small', '--print', '--', ...words);
    assert.is(code, 0, stderr);
    assert.match(stderr, /svc key add/);
    assert.not.match(stdout, /svc_/);
    const options = { env: { PATH: pathOfBoth(), SVC_API_KEY: key }, encoding: 'utf8' } as const;
    const { words: got, env: variables } = JSON.parse(execFileSync('/bin/sh', ['-c', stdout], options));
    assert.equal(got, words);
    assert.is(variables.SVC_API_KEY, key);
    assert.is(JSON.parse(variables.OPENCODE_CONFIG_CONTENT).model, 'svc/mine/small');
    assert.is(readKeyFile(keyFile).length, 2);
  } finally {
    await removeKey(keyFile, 'printed');
    await removeKey(keyFile, 'other');
  }
});

test.run();

/** `svc provider` and requests to providers, against servers on this machine. */
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createServer } from 'node:http';
import { once } from 'node:events';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ControlClient } from '../../src/client/control-client.ts';
import type { GenerateResult } from '../../src/protocol/generate.ts';
import type { ProviderRecord } from '../../src/protocol/records.ts';
import { catalogue } from '../../src/config/catalogue.ts';
import { chunk } from '../backends/cloud/cloud-support.ts';
import { HELLO as OPENAI_HELLO } from '../backends/cloud/recorded-chat-completions.ts';
import { HELLO as GEMINI_HELLO } from '../backends/cloud/recorded-gemini.ts';
import { HELLO as ANTHROPIC_HELLO } from '../backends/cloud/recorded-messages.ts';
import { recorded, startUpstream, type Script, type Upstream } from '../backends/cloud/upstream.ts';
import { ask } from '../http/ask.ts';
import { assertExit } from '../support/exit.ts';
import { makeHome, type Home } from '../support/home.ts';
import { unless } from '../support/skip.ts';
import { spawnSvc, svc, SVC_COMMAND, type SvcResult } from '../support/svc.ts';
import { KEYS, NO_TERMINAL, Terminal } from '../support/terminal.ts';
import { seenOf } from '../support/proc.ts';
import { waitFor } from '../support/wait.ts';

const KEY = 'sk-good-0123456789abcdef';
const PNG = Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex');

interface Context {
  home: Home;
  client: ControlClient;
  upstream: Upstream;
  /** Runs svc in an environment without provider keys. */
  run(...args: string[]): Promise<SvcResult>;
  piped(input: string, ...args: string[]): Promise<SvcResult>;
  terminal(...args: string[]): Terminal;
}

/** With the right key, lists two models and answers with the name of the model. */
const good: Script = async (turn) => {
  if (turn.request.headers.authorization !== `Bearer ${KEY}`) {
    turn.json(401, { error: { message: 'no such key', type: 'invalid_request_error' } });
  } else if (turn.request.method === 'GET') {
    turn.json(200, { object: 'list', data: [{ id: 'small' }, { id: 'large' }] });
  } else {
    await turn.event(chunk({ role: 'assistant', content: `I am ` }));
    await turn.event(chunk({ content: turn.request.body.model }, 'stop'));
    await turn.event('[DONE]');
    turn.end();
  }
};

const env = Object.fromEntries(
  [...catalogue().values()].flatMap(({ key_variables }) => key_variables.map((name) => [name, undefined])),
);

const test = suite<Context>('provider');
const terminals: Terminal[] = [];
test.before.each(async (context) => {
  const home = (context.home = await makeHome());
  context.client = new ControlClient(join(home.dir, 'run', 'svc.sock'));
  context.upstream = await startUpstream(good);
  context.run = (...args) => svc(args, { home, env });
  context.piped = (input, ...args) => svc(args, { home, env, input });
  context.terminal = (...args) => {
    const made = new Terminal([...SVC_COMMAND, ...args], { ...home.env, ...env });
    terminals.push(made);
    return made;
  };
});
test.after.each(async ({ home, upstream, run }) => {
  for (const terminal of terminals.splice(0)) terminal.kill();
  await run('stop', '--force');
  await upstream.close();
  await home.remove();
});

const configOf = ({ dir }: Home): string => readFileSync(join(dir, 'config', 'config.json'), 'utf8');
const credentialsOf = ({ dir }: Home): string => readFileSync(join(dir, 'data', 'credentials.json'), 'utf8');
const listed = ({ stdout }: SvcResult): ProviderRecord[] =>
  (JSON.parse(stdout) as { providers: ProviderRecord[] }).providers;

/** Configures the provider `mine` with the upstream and a stored key. */
async function setMine({ piped, upstream }: Context, ...more: string[]): Promise<void> {
  const args = ['--base-url', `${upstream.url}/v1`, '--default-model', 'small', '--api-key-stdin', ...more];
  const { code, stderr } = await piped(`${KEY}\n`, 'provider', 'set', 'mine', ...args);
  assert.is(code, 0, stderr);
}

/** Configures the provider `mine` with the upstream and its key in the variable MINE_LLM. */
async function setMineByVariable({ run, upstream }: Context): Promise<void> {
  const args = ['--base-url', upstream.url, '--default-model', 'small', '--api-key-env', 'MINE_LLM'];
  assertExit(await run('provider', 'set', 'mine', ...args), 0);
}

test('without a daemon: set, list, test, models and unset', async (context) => {
  const { run, piped, home, upstream } = context;
  await setMine(context, '--default');
  assert.equal(JSON.parse(configOf(home)), {
    providers: { mine: { base_url: `${upstream.url}/v1`, default_model: 'small' } },
    cloud: { default_provider: 'mine' },
  });
  if (process.platform !== 'win32') assert.is(statSync(join(home.dir, 'data', 'credentials.json')).mode & 0o777, 0o600);
  const [local, mine, ...others] = listed(await run('provider', 'list', '--json'));
  assert.equal([local?.name, mine?.name, others], ['local', 'mine', []]);
  assert.equal(mine?.credential, { source: 'file', name: 'credentials.json', present: true });
  assert.equal([mine?.default_cloud, mine?.state, mine?.kind], [true, 'unknown', 'openai_compatible']);
  assert.is((await run('provider', 'models', 'mine')).stdout, 'small\nlarge\n');

  const tried = await run('provider', 'test', 'mine', '--json');
  assertExit(tried, 0);
  const { ok, steps } = JSON.parse(tried.stdout) as { ok: boolean; steps: { step: string; status: string }[] };
  assert.is(ok, true);
  assert.equal(
    steps.map(({ step, status }) => `${step} ${status}`),
    ['key ok', 'connect ok', 'models ok', 'answer ok'],
  );

  await piped('sk-bad', 'provider', 'set', 'mine', '--api-key-stdin');
  const refused = await run('provider', 'test', 'mine');
  assertExit(refused, 77);
  assert.match(refused.stdout, /^ok +key[^]*^fail +models/m);
  assertExit(await run('provider', 'models', 'mine'), 77);
  await upstream.close();
  const gone = await run('provider', 'test', 'mine');
  assertExit(gone, 69);
  assert.match(gone.stdout, /^fail +connect +.*ECONNREFUSED/m);

  assert.match((await run('provider', 'unset', 'mine')).stdout, /its key was deleted/);
  assert.equal(JSON.parse(configOf(home)), { providers: {}, cloud: {} });
  assert.equal(JSON.parse(credentialsOf(home)), { version: 1, credentials: {} });
  assertExit(await run('provider', 'unset', 'mine'), 1);
});

test('invalid settings are refused before anything is written', async ({ run, piped, home }) => {
  for (const [args, code, words] of [
    [['Mine'], 2, /is not a valid provider name/],
    [['local'], 2, /is not a valid provider name/],
    [['opena'], 2, /did you mean "openai"/],
    [['mine'], 2, /--base-url/],
    [['azure'], 2, /azure needs a base_url, of the form/],
    [['mine', '--base-url', 'http://example.com/v1'], 2, /https/],
    [['openai', '--api-key-env', KEY], 2, /--api-key-stdin/],
    [['openai', '--api-key-env', 'A', '--api-key-stdin'], 2, /exclude each other/],
    [['openai', '--kind', 'other'], 2, /must be one of/],
  ] as const) {
    const result = await run('provider', 'set', ...args);
    assert.is(result.code, code, args.join(' '));
    assert.match(result.stderr, words);
    assert.not.match(result.stderr, KEY);
  }
  assertExit(await piped('', 'provider', 'set', 'openai', '--api-key-stdin'), 65);
  assertExit(await piped(`${KEY} ${KEY}`, 'provider', 'set', 'openai', '--api-key-stdin'), 65);
  const far = await piped(KEY, 'provider', 'set', 'far', '--base-url', 'http://10.0.0.5/v1', '--api-key-stdin');
  assertExit(far, 2);
  assert.match(far.stderr, /plain http/);
  assert.throws(() => configOf(home), /ENOENT/);
  assert.throws(() => credentialsOf(home), /ENOENT/);
  for (const command of ['test', 'models']) assertExit(await run('provider', command, 'nobody'), 1);
});

/** Header for the key, and path, of each API. */
const APIS = [
  { name: 'openai', base: '/v1', path: '/v1/chat/completions', header: 'authorization', events: OPENAI_HELLO },
  { name: 'anthropic', base: '', path: '/v1/messages', header: 'x-api-key', events: ANTHROPIC_HELLO },
  { name: 'gemini', base: '/v1beta', path: '/v1beta/models/', header: 'x-goog-api-key', events: GEMINI_HELLO },
];

test('OpenAI, Anthropic and Gemini answer svc run, and their key appears in no output, log or command line', async (context) => {
  const { run, piped, home, upstream } = context;
  let told = '';
  for (const { name, base, path, header, events } of APIS) {
    upstream.script(recorded(events));
    const set = await piped(`${KEY}\n`, 'provider', 'set', name, '--base-url', upstream.url + base, '--api-key-stdin');
    assertExit(set, 0);
    const answer = await run('run', '--provider', name, 'Hi');
    assert.match(answer.stdout, /^Hello/, `${name}: ${answer.stderr}`);
    const asked = upstream.asked.at(-1);
    assert.ok(asked?.path.startsWith(path), asked?.path);
    assert.match(String(asked?.headers[header]), new RegExp(`(^|^Bearer )${KEY}$`));
    told += set.stdout + set.stderr + answer.stdout + answer.stderr;
  }
  for (const args of [
    ['provider', 'list', '--json'],
    ['logs', '--tail', '100000'],
    ['config', 'show'],
    ['status', '--json'],
  ]) {
    const { stdout, stderr } = await run(...args);
    told += stdout + stderr;
  }
  assert.not.ok((told + configOf(home)).includes(KEY));
  const [pid] = /"pid": (\d+)/.exec((await run('status', '--json')).stdout)?.slice(1) ?? [];
  if (process.platform === 'linux') {
    for (const file of ['cmdline', 'environ']) {
      assert.not.ok(seenOf(Number(pid), file).includes(KEY), file);
    }
  }
});

test('a running daemon uses a new provider at once, over every interface', async (context) => {
  const { run, piped, upstream, client } = context;
  assertExit(await run('start', '--timeout', '150s'), 0);
  assertExit(await run('run', '--cloud', 'Hi'), 78);
  await setMine(context);
  assert.is((await run('run', '--cloud', 'Hi')).stdout, 'I am small\n');
  const named = JSON.parse(
    (await run('run', '--provider', 'mine', '-m', 'large', '--json', 'Hi')).stdout,
  ) as GenerateResult;
  assert.equal([named.text, named.provider, named.route.requested], ['I am large', 'mine', 'provider:mine']);
  assert.is((await run('run', '-m', 'mine/large', 'Hi')).stdout, 'I am large\n');
  const port = Number((await client.status()).http?.split(':').at(-1));
  const body = { model: 'mine/large', messages: [{ role: 'user', content: 'Hi' }] };
  const answer = JSON.parse((await ask({ port }, '/v1/chat/completions', { body })).text);
  assert.is(answer.choices[0].message.content, 'I am large');
  assert.ok(upstream.asked.every(({ headers }) => headers.authorization === `Bearer ${KEY}`));
  assert.is(listed(await run('provider', 'list', '--json'))[1]?.state, 'healthy');
  assert.is((await run('provider', 'models', 'mine')).stdout, 'small\nlarge\n');

  await piped('sk-bad', 'provider', 'set', 'mine', '--api-key-stdin');
  const refused = await run('run', '--provider', 'mine', 'Hi');
  assertExit(refused, 77);
  assert.match(refused.stderr, /svc provider set mine --api-key-stdin/);
  assertExit(await run('provider', 'test', 'mine'), 77);

  assertExit(await run('config', 'set', 'providers.mine.default_model', 'large'), 0);
  await setMine(context);
  await run('provider', 'unset', 'mine');
  const unknown = await run('run', '--provider', 'mine', 'Hi');
  assertExit(unknown, 1);
  assert.match(unknown.stderr, /mine/);
  assert.equal(
    listed(await run('provider', 'list', '--json')).map(({ name }) => name),
    ['local'],
  );
});

test('an answer in flight ends normally if its provider is changed meanwhile', async (context) => {
  const { run, upstream, home } = context;
  await setMine(context);
  assertExit(await run('start', '--timeout', '150s'), 0);
  let goOn = (): void => undefined;
  upstream.script(async (turn) => {
    await turn.event(chunk({ content: 'first ' }));
    await new Promise<void>((resolve) => (goOn = resolve));
    await turn.event(chunk({ content: 'last' }, 'stop'));
    await turn.event('[DONE]');
    turn.end();
  });
  const answering = spawnSvc(['run', '--provider', 'mine', 'Hi'], { home, env });
  await waitFor('the first word', () => answering.stdout().includes('first'));
  await run('provider', 'set', 'mine', '--default-model', 'large');
  upstream.script(good);
  assert.is((await run('run', '--provider', 'mine', 'Hi')).stdout, 'I am large\n');
  await run('provider', 'unset', 'mine');
  goOn();
  const { stdout, code } = await answering.result;
  assert.equal([stdout, code], ['first last\n', 0]);
});

test('a key in the environment suffices; a daemon has the one that it was started with', async (context) => {
  const { run, home } = context;
  const withKey = { ...env, MINE_LLM: KEY };
  await setMineByVariable(context);
  const missing = await run('run', '--provider', 'mine', 'Hi');
  assertExit(missing, 77);
  assert.match(missing.stderr, /no key for mine[^]*--api-key-stdin[^]*MINE_LLM/);
  assertExit(await run('provider', 'test', 'mine'), 77);
  const stale = await svc(['run', '--provider', 'mine', 'Hi'], { home, env: withKey });
  assertExit(stale, 77);
  assert.match(stale.stderr, /started without MINE_LLM: svc restart/);
  const again = await svc(['provider', 'set', 'mine', '--api-key-env', 'MINE_LLM'], { home, env: withKey });
  assert.match(again.stderr, /the running daemon was started without MINE_LLM/);
  await run('stop');
  assert.is((await svc(['run', '--provider', 'mine', 'Hi'], { home, env: withKey })).stdout, 'I am small\n');
  assert.equal(listed(await run('provider', 'list', '--json'))[1]?.credential, {
    source: 'env',
    name: 'MINE_LLM',
    present: true,
  });
});

test('unconfigured catalogue providers are listed on request, and errors name the command that sets them up', async ({
  run,
}) => {
  const all = listed(await run('provider', 'list', '--all', '--json'));
  assert.equal(all.map(({ name }) => name).sort(), ['local', ...catalogue().keys()].sort());
  const keyless = await run('run', '--provider', 'openai', 'Hi');
  assertExit(keyless, 77);
  assert.match(keyless.stderr, /svc provider set openai --api-key-stdin/);
  const own = await run('run', '--provider', 'ollama', 'Hi');
  assertExit(own, 78);
  assert.match(own.stderr, /hint: svc provider set ollama$/m);
  const set = await run('provider', 'set', 'groq', '--json');
  assertExit(set, 0);
  assert.is((JSON.parse(set.stdout) as ProviderRecord).state, 'unconfigured');
  assert.match(set.stderr, /no key for groq yet.*GROQ_API_KEY/);
  await waitFor('the condition', async () => {
    const found = JSON.parse((await run('health', '--source', 'socket', '--json')).stdout).conditions;
    return found.some(
      ({ name, status, reason }: any) => name === 'providers' && status === 'warn' && /groq/.test(reason),
    );
  });
});

test('local servers are searched for only with --probe', async ({ run }) => {
  const lmstudio = createServer((_req, res) => res.end('{"data":[{"id":"qwen"}]}')).listen(1234, '127.0.0.1');
  const isMine = await Promise.race([
    once(lmstudio, 'listening').then(() => true),
    once(lmstudio, 'error').then(() => false),
  ]);
  try {
    const { found } = JSON.parse((await run('provider', 'list', '--probe', '--json')).stdout) as { found: any[] };
    const there = found.find(({ name }) => name === 'lmstudio');
    if (isMine) assert.equal(there, { name: 'lmstudio', base_url: 'http://127.0.0.1:1234/v1', models: ['qwen'] });
    assert.is(Object.hasOwn(JSON.parse((await run('provider', 'list', '--json')).stdout) as object, 'found'), false);
  } finally {
    lmstudio.close();
  }
});

test('images are sent; non-images, images that are too large, and images for local models are refused', async (context) => {
  const { run, home, upstream } = context;
  await setMine(context);
  const [photo, text, large] = ['photo', 'text.png', 'large.png'].map((name) => join(home.dir, name)) as [
    string,
    string,
    string,
  ];
  writeFileSync(photo, PNG);
  writeFileSync(text, 'not at all');
  writeFileSync(large, Buffer.concat([PNG, Buffer.alloc(20 * 1024 * 1024)]));
  assertExit(await run('run', '--provider', 'mine', '--image', photo, '--image', photo, 'What?'), 0);
  const [{ content }] = upstream.asked.at(-1)?.body.messages ?? [{ content: [] }];
  assert.equal(
    content.map(({ type }: any) => type),
    ['image_url', 'image_url', 'text'],
  );
  assert.is(content[0].image_url.url, `data:image/png;base64,${PNG.toString('base64')}`);
  assertExit(await run('run', '--image', text, 'What?'), 65);
  assertExit(await run('run', '--image', large, 'What?'), 65);
  assertExit(await run('run', '--image', join(home.dir, 'nothing'), 'What?'), 65);
  const local = await run('run', '--local', '--image', photo, 'What?');
  assertExit(local, 2);
});

unless(NO_TERMINAL, test)(
  'on a terminal: a key is typed without echo, and stored only if the user agrees',
  async (context) => {
    const { run, terminal, home } = context;
    await setMineByVariable(context);
    await run('start', '--timeout', '150s');
    const ask = async (keep: string): Promise<string> => {
      const asking = terminal('run', '--provider', 'mine', 'Hi');
      await asking.shows('mine API key');
      asking.type(`${KEY}${KEYS.enter}`);
      await asking.shows('[y/N]');
      asking.type(`${keep}${KEYS.enter}`);
      assert.is(await asking.end(), 0, asking.screen);
      assert.not.ok(asking.screen.includes(KEY));
      return asking.screen;
    };
    assert.match(await ask('n'), /not stored[^]*I am small/);
    assert.throws(() => credentialsOf(home), /ENOENT/);
    // The daemon keeps the key in memory while it runs.
    assert.is((await run('run', '--provider', 'mine', 'Hi')).stdout, 'I am small\n');
    assert.is(listed(await run('provider', 'list', '--json'))[1]?.credential.source, 'memory');
    await run('stop');

    await run('config', 'unset', 'providers.mine.api_key_env');
    const setting = terminal('provider', 'set', 'mine', '--api-key-stdin');
    await setting.shows('mine API key');
    setting.type(`${KEY}${KEYS.enter}`);
    assert.is(await setting.end(), 0, setting.screen);
    assert.not.ok(setting.screen.includes(KEY));
    assert.match(credentialsOf(home), KEY);
    assert.is((await run('run', '--provider', 'mine', 'Hi')).stdout, 'I am small\n');

    const leaving = terminal('provider', 'set', 'groq');
    await leaving.shows('Groq API key');
    leaving.type(KEYS.ctrlC);
    assert.is(await leaving.end(), 130);
    const nothing = terminal('run', '--provider', 'groq', 'Hi');
    await nothing.shows('Groq API key');
    nothing.type(KEYS.enter);
    assert.is(await nothing.end(), 77);
  },
);

test.run();

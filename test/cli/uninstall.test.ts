/** `svc uninstall` with real homes: it removes all that svc made, and nothing else. */
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmdirSync,
  symlinkSync,
  writeFileSync,
  copyFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import * as assert from 'uvu/assert';
import { readyStatus } from '../support/daemon.ts';
import { assertExit } from '../support/exit.ts';
import { svcSuite } from '../support/svc-suite.ts';
import { ControlClient } from '../../src/client/control-client.ts';
import { modelPath } from '../support/native-engine.ts';
import { openAiAt } from '../support/openai.ts';
import { SVC_COMMAND, svc } from '../support/svc.ts';
import { unless } from '../support/skip.ts';
import { KEYS, NO_TERMINAL, Terminal } from '../support/terminal.ts';
import { waitFor } from '../support/wait.ts';

interface Report {
  readonly dry_run: boolean;
  readonly items: readonly { readonly what: string; readonly path: string; readonly size_bytes: number }[];
  readonly left: readonly { readonly path: string; readonly why: string }[];
  readonly failed: readonly unknown[];
  readonly size_bytes: number;
  readonly program: string;
}

const ROOT = realpathSync(fileURLToPath(new URL('../..', import.meta.url)));
const test = svcSuite('uninstall');

test('after use of everything, nothing of svc is left; a model in its own place stays', async ({ home, run }) => {
  const own = join(home.dir, 'mine.gguf');
  copyFileSync(modelPath('tiny-qwen2'), own);
  for (const args of [
    ['model', 'add', modelPath('tiny-llama'), '--name', 'copied', '--copy'],
    ['model', 'add', own, '--name', 'mine'],
    ['config', 'set', 'log.level', 'debug'],
    ['key', 'add', 'laptop', '--scope', 'admin'],
    ['run', '-m', 'copied', 'Hello'],
  ]) {
    const done = await run(...args);
    assert.is(done.code, 0, `${args.join(' ')}: ${done.stderr}`);
  }
  const stored = await svc(['provider', 'set', 'openai', '--api-key-stdin'], { home, input: 'sk-test-0123456789' });
  assertExit(stored, 0);
  const client = new ControlClient(join(home.dir, 'run', 'svc.sock'));
  await client
    .generate({ messages: [{ role: 'user', content: 'word '.repeat(300) }], max_tokens: 4, sampling: {}, stop: [] })
    .result();
  const prefixes = join(home.dir, 'cache', 'prefixes');
  await waitFor('a prefix file', () =>
    readdirSync(prefixes, { recursive: true }).some((name) => /prefix$/.test(String(name))),
  );
  const key = JSON.parse((await run('key', 'add', 'second', '--json')).stdout) as { key: string };
  const { http } = await client.status();
  const openai = openAiAt(`http://${String(http)}`).withOptions({ apiKey: key.key });
  await openai.responses.create({ model: 'copied', input: 'Hello', max_output_tokens: 4 });

  const dry = await run('uninstall', '--dry-run', '--json');
  assertExit(dry, 0);
  const plan = JSON.parse(dry.stdout) as Report;
  // The tests run a checkout.
  assert.is(plan.program, `delete ${ROOT}`);
  assert.ok(plan.items.some(({ what, size_bytes }) => what === 'model copied' && size_bytes > 100_000));
  assert.equal(
    plan.left.filter(({ path }) => path === own).map(({ why }) => why),
    ['the model mine was added in its own place', 'not made by svc'].toReversed(),
  );
  // A dry run ends nothing.
  await readyStatus(client);

  const unasked = await run('uninstall');
  assertExit(unasked, 2);
  assert.match(unasked.stderr, /hint: see what: svc uninstall --dry-run; confirm it: svc uninstall --yes/);

  const removed = await run('uninstall', '--yes');
  assertExit(removed, 0);
  assert.match(removed.stdout, /^removed /);
  assert.ok(removed.stdout.endsWith(` places\nTo remove the program itself: delete ${ROOT}\n`), removed.stdout);
  assert.equal(readdirSync(home.dir, { recursive: true }), ['mine.gguf']);
  assertExit(await run('status'), 3);
});

test('--keep-models keeps the store; a model that was added from inside of svc stays as well', async ({
  home,
  run,
}) => {
  const inside = join(home.dir, 'cache', 'downloads', 'mine.gguf');
  mkdirSync(join(home.dir, 'cache', 'downloads'), { recursive: true });
  copyFileSync(modelPath('tiny-qwen2'), inside);
  assertExit(await run('model', 'add', modelPath('tiny-llama'), '--name', 'copied', '--copy'), 0);
  assertExit(await run('model', 'add', inside, '--name', 'mine'), 0);
  assertExit(await run('start', '--timeout', '150s'), 0);
  const removed = await run('uninstall', '--yes', '--keep-models', '--json');
  assertExit(removed, 0);
  assert.equal((JSON.parse(removed.stdout) as Report).failed, []);
  assert.equal(readdirSync(home.dir).sort(), ['cache', 'models']);
  assert.ok(existsSync(inside));
  assert.equal(
    (JSON.parse((await run('model', 'list', '--json')).stdout) as { models: { id: string }[] }).models
      .map(({ id }) => id)
      .filter((id) => id !== 'builtin')
      .sort(),
    ['copied', 'mine'],
  );
});

test("content of the store that svc has no model of stays, and so does all of it beside Ollama's", async ({
  home,
  run,
}) => {
  const blobs = join(home.dir, 'models', 'blobs');
  const foreign = `sha256-${'a'.repeat(64)}`;
  assertExit(await run('model', 'add', modelPath('tiny-llama'), '--name', 'copied', '--copy'), 0);
  for (const name of [foreign, '.unfinished-1-x', `${foreign}.unfinished-2`]) writeFileSync(join(blobs, name), 'x');
  mkdirSync(join(home.dir, 'models', 'manifests'));
  const beside = JSON.parse((await run('uninstall', '--dry-run', '--json')).stdout) as Report;
  assert.not.ok(beside.items.some(({ what }) => what === 'model copied'));
  assert.is(beside.left.filter(({ path }) => path.startsWith(join(blobs, 'sha256-'))).length, 2);

  rmdirSync(join(home.dir, 'models', 'manifests'));
  const removed = await run('uninstall', '--yes', '--json');
  assertExit(removed, 0);
  const { items, left } = JSON.parse(removed.stdout) as Report;
  assert.ok(items.some(({ what }) => what === 'model copied'));
  assert.equal(left, [{ path: join(blobs, foreign), why: 'belongs to no model of svc' }]);
  assert.equal(readdirSync(home.dir, { recursive: true }).sort(), [
    'models',
    join('models', 'blobs'),
    join('models', 'blobs', foreign),
  ]);
});

test('hostile homes: links are not followed, files of others stay, wide homes are refused', async ({ home }) => {
  const outside = join(home.dir, 'outside');
  const inner = join(home.dir, 'home');
  for (const folder of [outside, inner, join(inner, 'state'), join(inner, 'cache', 'prefixes', 'x')])
    mkdirSync(folder, { recursive: true });
  writeFileSync(join(outside, 'daemon.json'), 'precious');
  writeFileSync(join(inner, 'state', 'notes.txt'), 'precious');
  writeFileSync(join(inner, 'state', 'daemon.stderr'), '');
  symlinkSync(outside, join(inner, 'models'));
  symlinkSync(join(outside, 'daemon.json'), join(inner, 'state', 'daemon.json'));
  symlinkSync(outside, join(inner, 'state', 'responses'));
  symlinkSync(outside, join(inner, 'cache', 'prefixes', 'x', 'out'));
  const removed = await svc(['uninstall', '--yes', '--json'], { home, env: { SVC_HOME: inner } });
  assertExit(removed, 0);
  const { left } = JSON.parse(removed.stdout) as Report;
  assert.equal(Object.fromEntries(left.map(({ path, why }) => [path.slice(inner.length + 1), why])), {
    models: 'a link, which is not followed',
    'state/daemon.json': 'a link, which is not followed',
    'state/notes.txt': 'not made by svc',
    'state/responses': 'a link, which is not followed',
  });
  assert.is(readFileSync(join(outside, 'daemon.json'), 'utf8'), 'precious');
  assert.equal(readdirSync(inner).sort(), ['models', 'state']);
  assert.equal(readdirSync(join(inner, 'state')).sort(), ['daemon.json', 'notes.txt', 'responses']);

  // The user's home, by its own name, by a link, and the directory above it.
  symlinkSync(inner, join(home.dir, 'alias'));
  for (const SVC_HOME of [inner, join(home.dir, 'alias'), home.dir, '/']) {
    const env = { HOME: inner, SVC_HOME, SVC_SOCKET: join(home.dir, 's') };
    const refused = await svc(['uninstall', '--yes'], { home, env });
    assert.is(refused.code, 78, SVC_HOME);
    const why = SVC_HOME === '/' ? /it is the root directory/ : /(is|holds) your home directory: svc removes nothing/;
    assert.match(refused.stderr, why);
    // What is named is there: the documentation is no part of the package.
    const named = /^hint: these have names of files of svc: .*: (.*)$/m.exec(refused.stderr)?.[1]?.split(', ') ?? [];
    if (SVC_HOME === inner)
      assert.equal(named.sort(), [join(inner, 'state', 'daemon.json'), join(inner, 'state', 'responses')]);
    assert.equal(
      named.filter((path) => !existsSync(path)),
      [],
    );
    assert.not.match(refused.stderr, 'docs/');
  }
  assert.ok(existsSync(join(inner, 'state', 'notes.txt')));
});

test('completion scripts and the service go, by their contents and their home', async ({ home }) => {
  if (process.platform !== 'linux') return;
  const user = join(home.dir, 'user');
  const bash = join(user, '.local', 'share', 'bash-completion', 'completions');
  const fish = join(user, '.config', 'fish', 'completions');
  for (const folder of [bash, fish]) mkdirSync(folder, { recursive: true });
  const env = {
    ...{ HOME: user, SVC_HOME: undefined, XDG_RUNTIME_DIR: join(home.dir, 'rt'), DBUS_SESSION_BUS_ADDRESS: undefined },
    ...{ XDG_CONFIG_HOME: undefined, XDG_DATA_HOME: undefined, XDG_STATE_HOME: undefined, XDG_CACHE_HOME: undefined },
  };
  mkdirSync(join(home.dir, 'rt'), { mode: 0o700 });
  writeFileSync(join(bash, 'svc'), (await svc(['completion', 'bash'], { home })).stdout);
  writeFileSync(join(fish, 'svc.fish'), '# my own\n');
  assertExit(await svc(['service', 'install'], { home, env }), 0);
  assertExit(await svc(['config', 'set', 'log.level', 'debug'], { home, env }), 0);
  const before = await svc(['uninstall', '--dry-run'], { home, env });
  assert.match(before.stdout, /^service +- +.*svc\.service$/m);
  assert.match(before.stdout, /^completion +\S+ \S+ +.*completions\/svc$/m);

  // Another home has another service.
  const elsewhere = join(home.dir, 'elsewhere');
  mkdirSync(elsewhere);
  const other = await svc(['uninstall', '--yes'], { home, env: { ...env, SVC_HOME: elsewhere } });
  assertExit(other, 0);
  const unit = join(user, '.config', 'systemd', 'user', 'svc.service');
  assert.ok(existsSync(unit) && existsSync(join(bash, 'svc')));

  const removed = await svc(['uninstall', '--yes'], { home, env });
  assertExit(removed, 0);
  const files = readdirSync(user, { recursive: true, withFileTypes: true }).filter((each) => each.isFile());
  assert.equal(
    files.map(({ name }) => name),
    ['svc.fish'],
  );
  assert.not.ok(existsSync(join(user, '.config', 'svc')));
});

unless(NO_TERMINAL, test)('on a terminal it shows the list and asks', async ({ home, run }) => {
  assertExit(await run('config', 'set', 'log.level', 'debug'), 0);
  for (const [answer, code] of [
    ['n', 130],
    ['y', 0],
  ] as const) {
    assert.ok(existsSync(join(home.dir, 'config', 'config.json')), answer);
    const terminal = new Terminal([...SVC_COMMAND, 'uninstall'], home.env);
    try {
      assert.match(await terminal.shows('[y/N]'), /^configuration +\d+ B +.*config\.json$/m);
      terminal.type(`${answer}${KEYS.enter}`);
      assert.is(await terminal.end(), code);
    } finally {
      terminal.kill();
    }
  }
  assert.not.ok(existsSync(home.dir));
});

test.run();

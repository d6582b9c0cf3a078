/** `svc key` without a daemon; for the effect on a running daemon see test/daemon/keys.test.ts. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { assertExit } from '../support/exit.ts';
import { makeHome, type Home } from '../support/home.ts';
import { svc, type SvcResult } from '../support/svc.ts';

interface Context {
  home: Home;
  run(...args: string[]): Promise<SvcResult>;
}
const test = suite<Context>('key');
test.before.each(async (context) => {
  context.home = await makeHome();
  context.run = (...args) => svc(args, { home: context.home });
});
test.after.each(({ home }) => home.remove());

test('add prints the key once, on standard output; list never does; rm removes it', async ({ home, run }) => {
  const added = await run('key', 'add', 'laptop');
  assertExit(added, 0);
  assert.match(added.stdout, /^svc_[\w-]{43}\n$/);
  assert.match(added.stderr, /laptop, scope inference; it is shown only once/);
  const json = JSON.parse((await run('key', 'add', 'deploy', '--scope', 'admin', '--json')).stdout) as {
    [field: string]: string;
  };
  const shown = ['name', 'scope', 'models', 'tokens_per_day', 'tokens_per_month', 'expires_at', 'created_at'];
  assert.equal(Object.keys(json), [...shown, 'key']);
  assert.equal([json['name'], json['scope']], ['deploy', 'admin']);

  const list = await run('key', 'list');
  assert.match(list.stdout, /laptop +inference/);
  const { keys } = JSON.parse((await run('key', 'list', '--json')).stdout) as { keys: Record<string, string>[] };
  assert.equal(keys.map(Object.keys), [shown, shown]);
  for (const key of [added.stdout.trim(), String(json['key'])]) {
    assert.not.ok(list.stdout.includes(key));
    for (const file of readdirSync(home.dir, { recursive: true, withFileTypes: true })) {
      if (file.isFile()) assert.not.ok(readFileSync(join(file.parentPath, file.name)).includes(key), file.name);
    }
  }

  assert.equal(JSON.parse((await run('key', 'rm', 'laptop', '--json')).stdout), { removed: 'laptop' });
  const last = await run('key', 'rm', 'deploy');
  assert.match(last.stderr, /no key is left/);
  assert.equal(JSON.parse((await run('key', 'list', '--json')).stdout), { keys: [] });
});

test('limits are set at once, and shown', async ({ run }) => {
  const flags = ['--models', 'tiny, openai/gpt-5', '--models', 'smart,tiny', '--tokens-per-day', '1000'];
  const added = await run('key', 'add', 'guest', ...flags, '--tokens-per-month', '20000', '--expires', '30d');
  assertExit(added, 0);
  const { keys } = JSON.parse((await run('key', 'list', '--json')).stdout) as { keys: Record<string, unknown>[] };
  const { expires_at, created_at, ...limits } = keys[0] ?? {};
  assert.equal(limits, {
    name: 'guest',
    scope: 'inference',
    models: ['tiny', 'openai/gpt-5', 'smart'],
    tokens_per_day: 1000,
    tokens_per_month: 20_000,
  });
  const days = (Date.parse(String(expires_at)) - Date.parse(String(created_at))) / 86_400_000;
  assert.ok(Math.abs(days - 30) < 0.01, String(days));
  const table = (await run('key', 'list')).stdout;
  assert.match(table, /guest +inference +\S+ +1,?000 +20,?000 +\S+ +tiny, openai\/gpt-5, smart/);

  for (const wrong of [
    ['--models', 'a,,b'],
    ['--models', ''],
    ['--tokens-per-day', '0'],
    ['--tokens-per-month', '1.5'],
    ['--expires', 'tomorrow'],
    ['--expires', '2020-01-31'],
    ['--expires', '2027-02-31T99:00Z'],
  ])
    assertExit(await run('key', 'add', 'wrong', ...wrong), 2, wrong.join(' '));
});

test('wrong usage has its exit codes', async ({ run }) => {
  assertExit(await run('key', 'add'), 2);
  assertExit(await run('key', 'add', 'a b'), 2);
  assertExit(await run('key', 'add', 'a', '--scope', 'root'), 2);
  assertExit(await run('key', 'rm', 'nobody'), 1);
  assertExit(await run('key'), 0, 'help');
});

test.run();

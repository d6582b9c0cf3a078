/** `svc key` without a daemon; for the effect on a running daemon see test/daemon/keys.test.ts. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
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
  assert.is(added.code, 0, added.stderr);
  assert.match(added.stdout, /^svc_[\w-]{43}\n$/);
  assert.match(added.stderr, /laptop, scope inference; it is shown only once/);
  const json = JSON.parse((await run('key', 'add', 'deploy', '--scope', 'admin', '--json')).stdout) as {
    [field: string]: string;
  };
  assert.equal(Object.keys(json), ['name', 'scope', 'created_at', 'key']);
  assert.equal([json['name'], json['scope']], ['deploy', 'admin']);

  const list = await run('key', 'list');
  assert.match(list.stdout, /laptop +inference/);
  const { keys } = JSON.parse((await run('key', 'list', '--json')).stdout) as { keys: Record<string, string>[] };
  assert.equal(keys.map(Object.keys), [
    ['name', 'scope', 'created_at'],
    ['name', 'scope', 'created_at'],
  ]);
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

test('wrong usage has its exit codes', async ({ run }) => {
  assert.is((await run('key', 'add')).code, 2);
  assert.is((await run('key', 'add', 'a b')).code, 2);
  assert.is((await run('key', 'add', 'a', '--scope', 'root')).code, 2);
  assert.is((await run('key', 'rm', 'nobody')).code, 1);
  assert.is((await run('key')).code, 0, 'help');
});

test.run();

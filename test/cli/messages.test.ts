/** What svc says of a mistake: one message, and one thing to do. */
import * as assert from 'uvu/assert';
import { loadSpecs } from '../../src/cli/commands.ts';
import { help } from '../../src/cli/help.ts';
import type { Topic } from '../../src/cli/parse.ts';
import { settingNames } from '../../src/config/settings.ts';
import { assertExit } from '../support/exit.ts';
import { configure } from '../support/home.ts';
import { svc } from '../support/svc.ts';
import { svcSuite } from '../support/svc-suite.ts';

const test = svcSuite('messages');

test('config validate: one message for one mistake, with the key that was probably meant', async ({ home, run }) => {
  const file = configure(home, '{"http": {"port": 1},\n "log" {"level": "info"}, "grpc" {}');
  const broken = await run('config', 'validate');
  assertExit(broken, 78);
  assert.is(broken.stdout, `${file}:2:8: not valid JSON: colon expected\n`);
  configure(home, '{"http": {"prot": 1}}');
  const mistyped = await run('config', 'validate');
  assert.is(mistyped.stdout, `${file}:1:11: unknown key "http.prot"; did you mean "http.port"?\n`);
  assert.match((await run('config', 'show')).stderr, `hint: did you mean "http.port"? edit ${file}\n`);
  const { problems } = JSON.parse((await run('config', 'validate', '--json')).stdout) as { problems: unknown[] };
  assert.equal(problems, [{ line: 1, column: 11, message: 'unknown key "http.prot"', likely: 'http.port' }]);
  configure(home, '{"nonsense": 1}');
  assert.is((await run('config', 'validate')).stdout, `${file}:1:2: unknown key "nonsense"\n`);
});

test('config set: the hint is an example of this setting', async ({ run }) => {
  const number = await run('config', 'set', 'http.port', 'abc');
  assert.is(number.stderr, 'svc: http.port must be a number\nhint: for example: svc config set http.port 7117\n');
  assert.match((await run('config', 'set', 'http.allowed_hosts', '7')).stderr, `http.allowed_hosts '["a", "b"]'`);
  assert.match((await run('config', 'set', 'engine.threads', 'x')).stderr, 'svc config unset engine.threads');
});

test('model show: a name of the config whose model is gone is an error with what to do', async ({ run, home }) => {
  configure(home, '{"models": {"mario": {"from": "gone"}}}');
  const shown = await run('model', 'show', 'mario');
  assertExit(shown, 1);
  assert.is(shown.stdout, '');
  assert.match(
    shown.stderr,
    /^svc: mario cannot be used: the model "gone" is not installed\nhint: .*models\.mario\.from/,
  );
});

test('config show has words where nothing is set', async ({ run }) => {
  const { stdout } = await run('config', 'show');
  assert.not.match(stdout, /null/);
  assert.match(stdout, /^engine\.threads +\(automatic\)$/m);
  assert.match(stdout, /^engine\.draft_model +\(none\)$/m);
  const shown = stdout.match(/^\S+(?= +\(automatic\)$)/gm) ?? [];
  assert.is(shown.length, 13);
  for (const name of shown) assert.ok(settingNames().includes(name), name);
});

test('a count out of its range is refused by the command, with the range', async ({ run }) => {
  for (const value of ['0', '-3', 'x', '1048577']) {
    const { code, stderr } = await run('run', '--no-start', '--max-tokens', value, 'hi');
    assert.is(code, 2);
    assert.match(stderr, `svc: --max-tokens must be a whole number from 1 to 1048576, not "${value}"`);
  }
  assert.match((await run('bench', '--runs', '0')).stderr, '--runs must be a whole number from 1 to 1000');
  assert.is((await run('usage', '--days', '36500')).code, 0);
});

test('a file that is not there is named in words', async ({ run }) => {
  const { code, stderr } = await run('run', '--no-start', '--image', '/no/such', 'hi');
  assert.is(code, 65);
  assert.is(stderr, 'svc: cannot read /no/such: no such file or directory\n');
});

test('provider test without a key: what is missing, and the hint that mends it', async ({ home }) => {
  const { code, stdout, stderr } = await svc(['provider', 'test', 'openai'], {
    home,
    env: { OPENAI_API_KEY: undefined },
  });
  assert.is(code, 77);
  assert.is(stdout, 'fail  key     missing: OPENAI_API_KEY is not set\n');
  assert.match(stderr, /^hint: store the key: svc provider set openai --api-key-stdin; .*\n$/);
});

test('a daemon that cannot serve: start says why, that it keeps running, and what to do', async ({ home, run }) => {
  configure(home, '{"models": {"memory_budget_bytes": 1048576}}');
  const { code, stderr } = await run('start', '--timeout', '150s');
  assert.is(code, 1);
  assert.match(
    stderr,
    /^svc: the daemon is DEGRADED and cannot serve \(engine: not enough memory for builtin: .*memory_budget_bytes/,
  );
  assert.match(stderr, /\nhint: it keeps running: correct the cause, then run `svc restart`\n$/);
  assert.match((await run('status')).stdout, /engine: not enough memory/);
});

test('help says what a TIME is, where there is one', async () => {
  for (const [name, { flags }] of Object.entries(await loadSpecs())) {
    const hasTime = Object.values(flags).some(({ kind }) => kind === 'duration');
    assert.is(/^TIME is .* seconds\.$/m.test(await help(name as Topic, 100)), hasTime, name);
  }
});

test.run();

/** Every command prints JSON with `--json`, or refuses the flag by name and says what to use instead. */
import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { loadSpecs, type CommandName } from '../../src/cli/commands.ts';
import { parse } from '../../src/cli/parse.ts';
import { childEnvironment } from '../../src/process/environment.ts';
import { rejection } from '../support/errors.ts';
import { svc } from '../support/svc.ts';
import { CALLS, commands, inOrder, makeWorld, programOf, textsOf, type Calls, type World } from './every-command.ts';

/** Commands whose answer depends on other programs or on the machine. */
const OUTSIDE: Readonly<Record<string, string>> = {
  'gpu install': 'downloads from a registry',
  'service install': 'writes to the service manager of the user',
};

/** Calls of the commands that have none for their text, and of those whose text shows more than one answer. */
const MORE: Calls = {
  run: () => [['--max-tokens', '4', 'Hello']],
  logs: () => [['--tail', '5']],
  'history show': () => [['last']],
  'history rm': () => [['last']],
  'config get': () => [['http.port']],
  'key add': ({ n }) => [[`more-${n}`]],
  'provider models': () => [['local']],
};

const SPECS = await loadSpecs();
const takesJson = (name: string): boolean => 'json' in SPECS[name as CommandName].flags;

const test = suite<World>('json');

test.before(async (context) => {
  Object.assign(context, await makeWorld(['json']));
});

test.after(async ({ stop }) => {
  await stop();
});

test('a command without --json refuses it by name, with what to use instead', async () => {
  const without = commands.filter((name) => !takesJson(name));
  assert.equal(without, ['serve', 'chat', 'launch', 'completion']);
  for (const name of without) {
    const spec = SPECS[name as CommandName];
    const error = await rejection(() => parse(name as CommandName, spec, ['--json']), 'INVALID_REQUEST', /./);
    assert.is(error.message, `svc ${name} has no --json`);
    assert.ok(error.hint !== undefined && !/--help/.test(error.hint), name);
  }
  for (const name of commands.filter(takesJson))
    assert.not.ok('insteadOfJson' in SPECS[name as CommandName], `${name} takes --json`);
});

test('that refusal is itself JSON, and usage', async ({ home }) => {
  const { code, stdout, stderr } = await svc(['chat', '--json'], { home });
  assert.is(code, 2);
  assert.is(stdout, '');
  assert.match((JSON.parse(stderr) as { error: { message: string } }).error.message, /^svc chat has no --json$/);
});

test('every other command prints one indented value, or JSON lines', async ({ home, env }) => {
  // A line that the daemon's logger did not write: Node's report of a crash.
  appendFileSync(join(home.dir, 'state', 'daemon.log'), 'Segmentation fault\n');
  const calls = inOrder(OUTSIDE)
    .filter(takesJson)
    .flatMap((name) => {
      const argumentLists = { ...CALLS, ...MORE }[name]?.({ n: 'json', dir: home.dir }) ?? [[]];
      return argumentLists.map((args) => ({ columns: 80, args: [...name.split(' '), ...args, '--json'] }));
    });
  const [program = '', ...rest] = programOf(calls, home);
  // Not synchronous: this process is also the hub that is pulled from.
  const { stdout: printed } = await promisify(execFile)(program, rest, {
    env: childEnvironment({ ...env, NO_COLOR: '1' }),
  });
  const texts = textsOf(printed);
  assert.is(texts.length, calls.length);
  for (const [index, { args }] of calls.entries()) {
    const text = (texts[index] ?? '').trim();
    const what = `svc ${args.join(' ')}: ${text}`;
    assert.ok(text !== '', what);
    try {
      for (const line of text.split('\n')) JSON.parse(line);
    } catch {
      assert.is(text, JSON.stringify(JSON.parse(text), null, 2), what);
    }
  }
});

test.run();

/**
 * On a terminal no line of a command is wider than the terminal: the help of every command, and the text that it
 * prints about a real daemon. The commands are those of the program, so that a new one is included.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { loadSpecs } from '../../src/cli/commands.ts';
import { GROUPS } from '../../src/cli/groups.ts';
import { help } from '../../src/cli/help.ts';
import type { Topic } from '../../src/cli/parse.ts';
import { width } from '../../src/cli/terminal/width.ts';
import { FakeHub } from '../models/pull/fake-hub.ts';
import { modelOf } from '../models/pull/pull-support.ts';
import { makeHome, type Home } from '../support/home.ts';
import { modelPath } from '../support/native-engine.ts';
import { svc, SVC_COMMAND } from '../support/svc.ts';
import { NO_TERMINAL, Terminal } from '../support/terminal.ts';

const WIDTHS = [40, 60, 80, 160];
const PROGRAM = fileURLToPath(new URL('print-calls.ts', import.meta.url));
const LONG_NAME = 'a-name-that-is-longer-than-a-narrow-terminal-is-wide';
const MEGABYTE = 1024 * 1024;

/** Commands that print no text to read. */
const WITHOUT_TEXT: Readonly<Record<string, string>> = {
  serve: 'runs until it is ended',
  run: 'an answer',
  chat: 'answers',
  launch: 'starts another program',
  open: 'a link, to copy',
  'gpu install': 'downloads from a registry',
  'history show': 'answers',
  'history rm': 'a line with an id',
  completion: 'a script',
  'config get': 'a value, to copy',
  'config path': 'a path, to copy',
  'key add': 'a key, to copy',
  'provider models': 'names, to copy',
};

/** What each command is called with that needs arguments, or has several texts. `n` differs between the widths, `dir` has files. */
const CALLS: Readonly<Record<string, (given: { n: string; dir: string }) => string[][]>> = {
  health: () => [[], ['--source', 'grpc']],
  doctor: () => [['--offline']],
  uninstall: () => [['--dry-run']],
  'history clear': () => [['--yes']],
  usage: () => [[], ['--by', 'key']],
  bench: () => [['--runs', '1', '--prompt-tokens', '16', '--max-tokens', '4']],
  'model show': () => [['builtin'], [LONG_NAME], ['talker']],
  'model add': ({ n }) => [[modelPath('tiny-llama'), '--name', `added-${n}`]],
  'model create': ({ n, dir }) => [[`created-${n}`, '-f', join(dir, 'Modelfile')]],
  'model pull': () => [['hf:acme/Tiny-GGUF']],
  'model search': () => [[], ['tiny']],
  'model rm': ({ n }) => [['--yes', `added-${n}`]],
  'model verify': () => [[], ['builtin']],
  'model quantize': ({ n }) => [['small', 'Q8_0', '--allow-requantize', '--name', `quantized-${n}`]],
  'model default': () => [[LONG_NAME]],
  'model load': () => [['small']],
  'model unload': () => [['small']],
  'key rm': ({ n }) => [[`key-${n}`]],
  'provider list': () => [[], ['--all'], ['--probe']],
  'provider set': ({ n }) => [[`provider-${n}`, '--base-url', 'http://127.0.0.1:9/v1/a/long/path/of/a/provider']],
  'provider unset': ({ n }) => [[`provider-${n}`]],
  'provider test': () => [['closed']],
  'config show': () => [[], ['--origin']],
  'config set': () => [['log.level', 'debug']],
  'config unset': () => [['log.level']],
  'service install': () => [],
};

interface Context {
  home: Home;
  hub: FakeHub;
  env: Readonly<Record<string, string | undefined>>;
}

const test = suite<Context>('terminal width');

test.before(async (context) => {
  const home = (context.home = await makeHome());
  const hub = (context.hub = new FakeHub());
  await hub.start();
  hub.add('acme/Tiny-GGUF', 'Tiny-Q4_K_M.gguf', modelOf(MEGABYTE));
  const { dir } = home;
  context.env = {
    ...home.env,
    // `svc uninstall` refuses a home that is the user's, or above it.
    HOME: '/nonexistent',
    XDG_CONFIG_HOME: join(dir, 'xdg'),
    HF_ENDPOINT: hub.endpoint,
    NO_COLOR: undefined,
  };
  mkdirSync(join(dir, 'config'), { mode: 0o700 });
  writeFileSync(
    join(dir, 'config', 'config.json'),
    JSON.stringify({
      history: { enabled: true },
      models: { talker: { from: 'builtin', system: 'いつも日本語で答えてください。🎉 '.repeat(12) } },
      providers: {
        closed: { base_url: ['http://127.0.0.1:9/v1', 'http://127.0.0.1:10/v1'], default_model: LONG_NAME },
      },
    }),
  );
  const run = async (...args: string[]): Promise<string> => {
    const result = await svc(args, { home });
    assert.is(result.code, 0, `svc ${args.join(' ')}: ${result.stderr}`);
    return result.stdout.trim();
  };
  await run('model', 'add', modelPath('tiny-llama'), '--name', LONG_NAME);
  await run('model', 'add', modelPath('tiny-qwen2'), '--name', 'small', '--copy');
  writeFileSync(join(dir, 'Modelfile'), 'FROM builtin\nSYSTEM """Answer briefly."""\n');
  for (const columns of WIDTHS) await run('key', 'add', `key-${String(columns)}`, '--models', `builtin,${LONG_NAME}`);
  context.env = { ...context.env, SVC_API_KEY: await run('key', 'add', 'admin', '--scope', 'admin') };
  await run('start', '--timeout', '150s');
  await run('run', '--max-tokens', '4', '-m', LONG_NAME, 'Hello');
  await run('run', '--max-tokens', '4', '--continue', 'Hello');
});

test.after(async ({ home, hub }) => {
  await svc(['stop', '--force'], { home });
  await hub.stop();
  await home.remove();
});

const commands = Object.keys(await loadSpecs());

/** Throws if a line of `text` is wider than `columns`. */
function fits(text: string, columns: number, what: string): void {
  for (const line of text.split('\n'))
    assert.ok(width(line) <= columns, `${what}, ${String(columns)} columns: ${String(width(line))} are in\n${line}`);
}

test('the help of svc, of each group and of each command', async () => {
  for (const columns of WIDTHS) {
    for (const topic of [undefined, ...Object.keys(GROUPS), ...commands])
      fits(await help(topic as Topic, columns), columns, `help of ${topic ?? 'svc'}`);
  }
});

test('COLUMNS sets the width of the help, in a pipe and on a terminal', async ({ home, env }) => {
  const { stdout } = await svc(['run', '--help'], { home, env: { COLUMNS: '47' } });
  fits(stdout, 47, 'help');
  assert.ok(stdout.split('\n').some((line) => line.length > 40));
  if (NO_TERMINAL !== undefined) return;
  fits((await shown(env, 160, ['run', '--help'], { COLUMNS: '47' })).text, 47, 'help on a terminal');
});

test('the text of every command', async ({ home, env }) => {
  if (NO_TERMINAL !== undefined) {
    console.log(`skipped: ${NO_TERMINAL}`);
    return;
  }
  assert.equal(
    Object.keys({ ...WITHOUT_TEXT, ...CALLS }).filter((name) => !commands.includes(name)),
    [],
    'no such command',
  );
  // A restart sets this process's variables to the daemon's; a stop ends what the others show.
  const last = ['restart', 'stop'];
  const order = [...commands.filter((name) => !last.includes(name)), ...last].filter((name) => !(name in WITHOUT_TEXT));
  const calls = order.flatMap((name) =>
    WIDTHS.flatMap((columns) => {
      const argumentLists = CALLS[name]?.({ n: String(columns), dir: home.dir }) ?? [[]];
      return argumentLists.map((args) => ({ columns, args: [...name.split(' '), ...args] }));
    }),
  );
  writeFileSync(join(home.dir, 'calls.json'), JSON.stringify(calls));
  const program = [process.execPath, '--import', import.meta.resolve('tsx'), PROGRAM, join(home.dir, 'calls.json')];
  const terminal = new Terminal(['sh', '-c', 'exec "$@" 2>/dev/null', 'sh', ...program], env, { columns: 200 });
  await terminal.end();
  const texts = terminal.screen.split(/^<<<\d+>>>$/m).slice(1);
  assert.is(texts.length, calls.length, terminal.screen.slice(-2000));
  for (const [index, { columns, args }] of calls.entries()) {
    const text = texts[index] ?? '';
    assert.ok(text.trim() !== '', `svc ${args.join(' ')} printed nothing`);
    fits(text, columns, `svc ${args.join(' ')}`);
  }
});

test('a table fits the terminal that it is on', async ({ env }) => {
  if (NO_TERMINAL !== undefined) return;
  for (const columns of WIDTHS) {
    const { text } = await shown(env, columns, ['model', 'list']);
    fits(text, columns, 'svc model list');
    assert.is(/ARCHITECTURE/.test(text), columns === 160, text);
  }
});

test('a pipe gets whole tables, whatever COLUMNS says', async ({ home }) => {
  const { stdout } = await svc(['model', 'list'], { home, env: { COLUMNS: '40' } });
  assert.match(stdout, /^MODEL +STATE +SIZE +CONTEXT +PARAMETERS +QUANTIZATION +ARCHITECTURE$/m);
  assert.match(stdout, new RegExp(`^${LONG_NAME}.* llama$`, 'm'));
  assert.not.match(stdout, /…|\u001b/);
});

/** Standard output of a command on a terminal of so many columns. */
async function shown(
  env: Context['env'],
  columns: number,
  args: readonly string[],
  more: Readonly<Record<string, string>> = {},
): Promise<{ text: string; code: number | null }> {
  const terminal = new Terminal(
    ['sh', '-c', 'exec "$@" 2>/dev/null', 'sh', ...SVC_COMMAND, ...args],
    { ...env, ...more },
    { columns },
  );
  const code = await terminal.end();
  return { text: terminal.screen, code };
}

test.run();

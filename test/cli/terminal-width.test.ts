/**
 * On a terminal no line of a command is wider than the terminal: the help of every command, and the text that it
 * prints about a real daemon.
 */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { GROUPS } from '../../src/cli/groups.ts';
import { help } from '../../src/cli/help.ts';
import type { Topic } from '../../src/cli/parse.ts';
import { width } from '../../src/cli/terminal/width.ts';
import { svc, SVC_COMMAND } from '../support/svc.ts';
import { NO_TERMINAL, Terminal } from '../support/terminal.ts';
import { CALLS, commands, inOrder, LONG_NAME, makeWorld, programOf, textsOf, type World } from './every-command.ts';

const WIDTHS = [40, 60, 80, 160];

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

const test = suite<World>('terminal width');

test.before(async (context) => {
  Object.assign(context, await makeWorld(WIDTHS.map(String)));
});

test.after(async ({ stop }) => {
  await stop();
});

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
  const order = inOrder(WITHOUT_TEXT);
  const calls = order.flatMap((name) =>
    WIDTHS.flatMap((columns) => {
      const argumentLists = CALLS[name]?.({ n: String(columns), dir: home.dir }) ?? [[]];
      return argumentLists.map((args) => ({ columns, args: [...name.split(' '), ...args] }));
    }),
  );
  const terminal = new Terminal(['sh', '-c', 'exec "$@" 2>/dev/null', 'sh', ...programOf(calls, home)], env, {
    columns: 200,
  });
  await terminal.end();
  const texts = textsOf(terminal.screen);
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
  env: World['env'],
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

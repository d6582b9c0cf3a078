/** Questions on a terminal: what Ctrl-C, Ctrl-D and Ctrl-Z do to them. */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeHome } from '../support/home.ts';
import { unless } from '../support/skip.ts';
import { SVC_COMMAND, svc } from '../support/svc.ts';
import type { SvcContext } from '../support/svc-suite.ts';
import { KEYS, NO_TERMINAL, Terminal } from '../support/terminal.ts';

const test = suite<SvcContext>('questions');
const terminals: Terminal[] = [];
test.before(async (context) => {
  const home = (context.home = await makeHome());
  context.run = (...args) => svc(args, { home });
  assert.is((await context.run('config', 'set', 'log.level', 'debug')).code, 0);
});
test.after.each(() => {
  for (const terminal of terminals.splice(0)) terminal.kill();
});
test.after(async ({ home }) => {
  await home.remove();
});
const atKeyboard = unless(NO_TERMINAL, test);

function open(command: readonly string[], { home }: SvcContext): Terminal {
  const made = new Terminal(command, home.env);
  terminals.push(made);
  return made;
}
const YES_OR_NO = { args: ['uninstall'], question: '[y/N] ' };
const SECRET = { args: ['provider', 'set', 'groq'], question: 'press Enter to skip): ' };

atKeyboard('Ctrl-C cancels a question', async (context) => {
  for (const { args, question } of [YES_OR_NO, SECRET]) {
    const terminal = open([...SVC_COMMAND, ...args], context);
    await terminal.shows(question);
    terminal.type(KEYS.ctrlC);
    assert.is(await terminal.end(), 130, terminal.screen);
    assert.ok(terminal.screen.endsWith(`${question}\nsvc: cancelled\n`), terminal.screen);
  }
});

atKeyboard('Ctrl-D answers no, or nothing', async (context) => {
  const asking = open([...SVC_COMMAND, ...YES_OR_NO.args], context);
  await asking.shows(YES_OR_NO.question);
  asking.type(KEYS.ctrlD);
  assert.is(await asking.end(), 130);
  assert.match(asking.screen, /\[y\/N\] \nsvc: nothing was removed\n$/);
  const reading = open([...SVC_COMMAND, ...SECRET.args], context);
  await reading.shows(SECRET.question);
  reading.type(KEYS.ctrlD);
  assert.is(await reading.end(), 0);
  assert.match(reading.screen, /there is no key for groq yet/);
});

atKeyboard('Ctrl-Z stops a question, and `fg` asks it again', async (context) => {
  for (const { args, question } of [YES_OR_NO, SECRET]) {
    const command = [...SVC_COMMAND, ...args].map((word) => `'${word}'`).join(' ');
    const shell = open(['sh', '-mc', `${command}; echo stopped; fg; echo "left $?"`], context);
    await shell.shows(question);
    shell.clear();
    shell.type(KEYS.ctrlZ);
    const screen = await shell.shows(question);
    assert.match(screen, /stopped\n/);
    shell.type(`no${KEYS.enter}`);
    const code = args === SECRET.args ? 0 : 130;
    await shell.shows(`left ${String(code)}`);
    if (args === SECRET.args) assert.not.match(shell.screen, /no$/m);
  }
});

test.run();

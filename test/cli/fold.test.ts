/** Reasoning is one live line of a terminal, which stays as one line above the answer; a pipe gets none of it. */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { unless } from '../support/skip.ts';
import { NO_TERMINAL, Terminal } from '../support/terminal.ts';

const PROGRAM = fileURLToPath(new URL('write-thinking.ts', import.meta.url));
const COMMAND = [process.execPath, '--import', import.meta.resolve('tsx'), PROGRAM];
const COLOURS = { NO_COLOR: undefined };

async function shownOn(env: Readonly<Record<string, string | undefined>>, ...args: string[]): Promise<string> {
  const terminal = new Terminal([...COMMAND, ...args], env);
  assert.is(await terminal.end(), 0);
  return terminal.raw.replaceAll('\r\n', '\n');
}

/** What stays on the screen: text before a return to the start of its line and an erasure is gone. */
const remaining = (raw: string): string =>
  raw
    .split('\n')
    .map((line) => line.slice(line.lastIndexOf('\r\u001b[K') + 1).replace(/\u001b\[[0-9;]*[a-zA-Z]/g, ''))
    .join('\n')
    .replace(/\d+s/g, 'Ns');

const FOLDED = 'thought for Ns, 5 words\n\nIt is';

const atKeyboard = unless(NO_TERMINAL, test);

atKeyboard('a live line becomes one line above the answer', async () => {
  const raw = await shownOn(COLOURS);
  assert.match(raw, /\r\u001b\[K\u001b\[2mthinking… \d+s, 3 words\u001b\[22m/);
  const screen = remaining(raw);
  assert.ok(screen.startsWith(FOLDED), screen);
  // Drawn in place, reasoning after text would replace that text.
  assert.match(screen, /Surely\.[^]*, I think\.\n/);
  assert.ok(screen.endsWith('thought for Ns, 2 words\n'), 'an answer that is reasoning only');
});

atKeyboard('without cursor control there is only the line that stays', async () => {
  const raw = await shownOn({ ...COLOURS, TERM: 'dumb' });
  assert.not.match(raw, /\u001b|thinking/);
  assert.match(raw, /^thought for \d+s, 5 words\n\nIt is \*\*seven\*\*/);
});

atKeyboard('unfolded, the reasoning itself is shown, dimmed', async () => {
  const raw = await shownOn(COLOURS, 'unfolded');
  assert.ok(raw.startsWith('\u001b[2mIs it seven \u001b[22m\u001b[2mor eight?\n\u001b[22m\n'), raw);
  assert.not.match(raw, /thought for/);
});

test('a pipe gets the answer alone', () => {
  const [program = '', ...args] = COMMAND;
  const { stdout } = spawnSync(program, args, { encoding: 'utf8' });
  assert.is(stdout, 'It is **seven**, I think.\n');
});

test.run();

/** A program of Windows on a terminal: its console is Wine's, and Ctrl-C reaches it as on Windows. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { terminalCommand } from './terminal-command.js';

const CTRL_C = '\u0003';
/** Moves of the cursor, and the title of the terminal. */
// eslint-disable-next-line no-control-regex -- they begin with Escape
const CONTROL = /\u001b(?:\[[0-9;?]*[a-zA-Z]|\][^\u0007]*\u0007)/g;
/** Wide enough for a line of the log. */
const COLUMNS = 200;
const POLL_MS = 50;
const LIMIT_MS = 120_000;

/**
 * Runs a command on a terminal of its own. A step `[pattern, keys]` waits until the terminal has
 * shown the pattern since the last step, and types the keys. Returns the exit code and all that was shown.
 */
export async function onTerminal(words, { env, cwd }, steps) {
  const [program, args] = terminalCommand(words, { columns: COLUMNS });
  const child = spawn(program, args, {
    cwd,
    env: { ...env, TERM: 'xterm', NO_COLOR: '1' },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (piece) => (text += piece.replace(CONTROL, '')));
  child.stdin.on('error', () => undefined);
  let isOver = false;
  const ended = once(child, 'close').finally(() => (isOver = true));
  const timer = setTimeout(() => child.kill('SIGKILL'), LIMIT_MS);
  let seen = 0;
  for (const [pattern, keys] of steps) {
    while (!isOver && !pattern.test(text.slice(seen))) await sleep(POLL_MS);
    seen = text.length;
    child.stdin.write(keys === 'Ctrl-C' ? CTRL_C : `${keys}\r`);
  }
  const [code, signal] = await ended;
  clearTimeout(timer);
  return { code: code ?? signal, text };
}

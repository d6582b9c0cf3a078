/** A person types the commands of the first hour. Prints the recording on standard output; see record.ts. */
import { setTimeout as pause } from 'node:timers/promises';
import { KEYS, Terminal } from '../../support/terminal.ts';
import { formatCast, type Cast, type Output } from './cast.ts';
import { CODER, makeNewcomer, REPOSITORY } from './newcomer.ts';

const TITLE = 'The first hour with svc';
const KEY_MS = 45;
/** For reading. */
const REST_MS = 1800;
const IDLE_SECONDS = 2;

/** What is typed, and what follows on the screen. */
type Step = readonly [typed: string, then: RegExp];
const SHELL = /(\d*)\$ $/;
const CHAT = />>> $/;
const STEPS: readonly Step[] = [
  ['npm i -g build/packages/svc-runtime-0.1.0.tgz build/packages/svc-runtime-linux-x64-0.1.0.tgz', SHELL],
  ['svc doctor', SHELL],
  ['svc run "how do I use a cloud provider?"', SHELL],
  [`svc pull hf:${REPOSITORY}`, SHELL],
  ['svc list', SHELL],
  [`svc chat -m ${REPOSITORY}`, CHAT],
  ['what is a provider?', CHAT],
  ['/exit', SHELL],
  [`svc pull hf:${CODER}`, SHELL],
  ['svc launch copilot --print', SHELL],
  ['svc open', SHELL],
];

async function record(size: string): Promise<Cast> {
  const [columns = 80, rows = 24] = size.split('x').map(Number);
  const newcomer = await makeNewcomer();
  const output: Output[] = [];
  const terminal = new Terminal(newcomer.as('sh', '-i'), {}, { columns, rows });
  try {
    await terminal.shows(/^\$ $/);
    const start = performance.now();
    const add = (text: string): number => output.push({ seconds: (performance.now() - start) / 1000, text });
    add(terminal.raw);
    terminal.onOutput = add;
    for (const step of STEPS) await take(terminal, step);
  } finally {
    terminal.kill();
    await newcomer.remove();
  }
  return { width: columns, height: rows, title: TITLE, idleSeconds: IDLE_SECONDS, output };
}

async function take(terminal: Terminal, [typed, then]: Step): Promise<void> {
  await pause(REST_MS);
  for (const key of typed) {
    terminal.type(key);
    await pause(KEY_MS);
  }
  terminal.clear();
  terminal.type(KEYS.enter);
  const screen = await terminal.shows(then);
  if (then === SHELL && SHELL.exec(screen)?.[1] !== '') throw new Error(`${typed} failed:\n${screen}`);
}

process.stdout.write(formatCast(await record(process.argv[2] ?? '')));

/** Text of others never controls the terminal, whichever function prints it, and JSON is printed without raw controls. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import * as output from '../../src/cli/terminal/output.ts';
import { unless } from '../support/skip.ts';
import { KEYS, NO_TERMINAL, Terminal } from '../support/terminal.ts';

const OUTPUT = join(import.meta.dirname, '..', '..', 'src', 'cli', 'terminal', 'output.ts');
/** Sets the title, clears the screen with both forms of the sequence, conceals text, rings, deletes, and goes back. */
const HOSTILE = 'a\u001b]0;title\u0007b\u001b[2Jc\u009b2Jd\u001b[8me\u007ff\bg';
const THROUGH = /\u001b\]|\u001b\[2J|\u001b\[8m|[\u0007\b\u007f-\u009f]/u;

/** A call of each function that prints text that it is given. */
const CALLS: Readonly<Record<string, string>> = {
  print: 'print(text)',
  write: 'write(text)',
  writeRendered: 'writeRendered(text, (same) => same)',
  writeDim: 'writeDim(text)',
  writeInPlace: 'writeInPlace(text)',
  printJson: 'printJson({ text })',
  printJsonLine: 'printJsonLine({ text })',
  say: 'say(text)',
  sayHint: 'sayHint(text)',
  sayMore: 'sayMore(text)',
  sayProgress: 'sayProgress(text)',
  askYesNo: 'await askYesNo(text)',
  askSecret: 'await askSecret(text)',
  report: "report(new SvcError('BUSY', text, { hint: text }), false); report(new SvcError('BUSY', text), true)",
};
const NOT_PRINTING = ['PromptOutput', 'guardOutput', 'exit', 'setExitCode', 'resumeAfterStop'];

const TSX = ['--import', import.meta.resolve('tsx'), '--input-type=module', '-e'];

function programOf(calls: readonly string[]): string {
  return [
    `const { ${Object.keys(CALLS).join(', ')} } = await import(${JSON.stringify(OUTPUT)});`,
    `const { SvcError } = await import(${JSON.stringify(join(OUTPUT, '../../../protocol/errors.ts'))});`,
    `const text = ${JSON.stringify(HOSTILE)};`,
    ...calls,
  ].join('\n');
}

const test = suite('control characters');

test('every function that prints is tried', () => {
  const functions = Object.entries(output).filter(([, value]) => typeof value === 'function');
  assert.equal(functions.map(([name]) => name).sort(), [...Object.keys(CALLS), ...NOT_PRINTING].sort());
});

unless(NO_TERMINAL, test)('no function lets them through to a terminal', async () => {
  const calls = Object.entries(CALLS).map(([name, call]) => `console.log('<${name}>'); ${call};`);
  const terminal = new Terminal([process.execPath, ...TSX, programOf(calls)], {});
  try {
    for (const [name, key] of [
      ['askYesNo', KEYS.enter],
      ['askSecret', KEYS.enter],
    ] as const) {
      await terminal.shows(new RegExp(`<${name}>[^]*svc: `));
      terminal.type(key);
    }
    assert.is(await terminal.end(), 0);
    const parts = terminal.raw.split(/(?=<[a-zA-Z]+>)/);
    assert.is(parts.length, Object.keys(CALLS).length);
    const failing = parts.filter((part) => THROUGH.test(part.replaceAll('\r', '')));
    assert.equal(failing, []);
  } finally {
    terminal.kill();
  }
});

test('JSON in a pipe has no raw control characters either, and colours reach a terminal that has them', async () => {
  const json = 'printJson({ text }); printJsonLine({ text })';
  const { stdout } = await promisify(execFile)(process.execPath, [...TSX, programOf([json])], { encoding: 'utf8' });
  assert.not.match(stdout, THROUGH);
  assert.equal(JSON.parse(stdout.split('\n}\n')[1] ?? ''), { text: HOSTILE });
  if (NO_TERMINAL !== undefined) return;
  const terminal = new Terminal([process.execPath, ...TSX, programOf([`print('\u001b[31mred' + text)`])], {
    NO_COLOR: undefined,
  });
  await terminal.end();
  assert.match(terminal.raw, '\u001b[31mreda');
  assert.not.match(terminal.raw, THROUGH);
});

test.run();

/** Progress is drawn in one line of the terminal, whose width it never exceeds: a line that wraps cannot be replaced. */
import { copyFileSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import * as assert from 'uvu/assert';
import { width } from '../../src/cli/terminal/width.ts';
import { modelPath } from '../support/native-engine.ts';
import { unless } from '../support/skip.ts';
import { SVC_COMMAND } from '../support/svc.ts';
import { svcSuite } from '../support/svc-suite.ts';
import { NO_TERMINAL, Terminal } from '../support/terminal.ts';

const test = svcSuite('progress');

/** Lines as they were drawn, each in place of the one before. */
function drawn({ raw }: Terminal): string[] {
  return raw
    .split('\r\u001b[K')
    .slice(1)
    .map((text) => text.replace(/[\r\n][^]*/, ''));
}

function fits(lines: readonly string[], columns: number): void {
  for (const line of lines) assert.ok(width(line) < columns, `${String(width(line))} cells: ${line}`);
}

unless(NO_TERMINAL, test)('a long path with wide characters is cut to the width', async ({ home }) => {
  const folder = join(home.dir, '模型'.repeat(20));
  mkdirSync(folder);
  const file = join(folder, 'tiny.gguf');
  copyFileSync(modelPath('tiny-llama'), file);
  for (const columns of [80, 40, 17]) {
    const name = `of-${String(columns)}`;
    const words = [...SVC_COMMAND, 'model', 'add', file, '--copy', '--name', name];
    // COLUMNS is for text that wraps: it does not make the terminal wider.
    const terminal = new Terminal(words, { ...home.env, COLUMNS: '200' }, { columns });
    assert.is(await terminal.end(), 0, terminal.raw);
    const lines = drawn(terminal).filter((line) => line.startsWith('svc: '));
    assert.ok(
      lines.some((line) => line.endsWith('…')),
      terminal.raw,
    );
    fits(lines, columns);
  }
});

/** Shows progress, changes the width of its terminal, waits until that is drawn, and shows more. */
const RESIZED = `
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { sayProgress } from '${new URL('../../src/cli/terminal/output.ts', import.meta.url).href}';
sayProgress('first ' + '字'.repeat(100));
// The first line is drawn once this is loaded.
await import('${new URL('../../src/cli/terminal/width.ts', import.meta.url).href}');
const resized = once(process.stderr, 'resize');
const timer = setInterval(() => undefined, 1000);
execFileSync('stty', ['cols', '31'], { stdio: 'inherit' });
await resized;
clearInterval(timer);
sayProgress('second\\n' + '字'.repeat(100));
sayProgress('');
`;

unless(NO_TERMINAL, test)('a resized terminal gets the line in its new width', async ({ home }) => {
  const node = [process.execPath, '--import', 'tsx', '--input-type=module', '--eval', RESIZED];
  const terminal = new Terminal(node, home.env, { columns: 60 });
  assert.is(await terminal.end(), 0, terminal.raw);
  const [first = '', again = '', second = '', end, ...more] = drawn(terminal);
  assert.equal([end, more], ['', []]);
  assert.is(first, `svc: first ${'字'.repeat(23)}…`);
  assert.is(again, `svc: first ${'字'.repeat(9)}…`);
  assert.is(second, `svc: second ${'字'.repeat(8)}…`);
  fits([first], 60);
  fits([again, second], 31);
});

test.run();

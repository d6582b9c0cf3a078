/** Display widths, tables, lists and wrapped text. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { definitions, facts, fit, table, wrap, wrapLine } from '../../src/cli/terminal/layout.ts';
import { cut, splitAt, width } from '../../src/cli/terminal/width.ts';

const GREEN = '\u001b[32mok\u001b[39m';

test('width: wide characters and emoji take two cells, marks and colours none', () => {
  const cases: [string, number][] = [
    ['', 0],
    ['plain', 5],
    [GREEN, 2],
    ['日本語', 6],
    ['ﾊﾝｶｸ', 4],
    ['한국', 4],
    ['\u1112\u1161\u11ab', 2],
    ['e\u0301', 1],
    ['\u200b', 0],
    ['🎉', 2],
    ['❤️', 2],
    ['👨‍👩‍👧', 2],
    ['🇩🇪', 2],
    ['👍🏽', 2],
    ['नमस्ते', 4],
    ['…', 1],
    ['a日🎉', 5],
  ];
  for (const [text, cells] of cases) assert.is(width(text), cells, JSON.stringify(text));
});

test('text is cut between characters, and its colours end', () => {
  assert.is(cut('日本語', 6), '日本語');
  assert.is(cut('日本語', 5), '日本…');
  assert.is(cut('日本語', 4), '日…');
  assert.is(cut('👨‍👩‍👧👨‍👩‍👧', 3), '👨‍👩‍👧…');
  assert.is(cut('\u001b[31mfailed\u001b[39m', 4), '\u001b[31mfai…\u001b[39m');
  assert.equal(splitAt('e\u0301e\u0301', 1), ['e\u0301', 'e\u0301']);
});

test('a table is aligned, and colour codes take no width', () => {
  assert.is(
    table([
      ['a', 'bb', 'c'],
      ['aaa', 'b', ''],
    ]),
    'a    bb  c\naaa  b',
  );
  assert.is(
    table([
      [GREEN, 'x'],
      ['日本', 'y'],
    ]),
    `${GREEN}    x\n日本  y`,
  );
});

test('columns are dropped from the right, and the last one that remains is cut', () => {
  const rows = [
    ['NAME', 'STATE', 'NOTE', 'KIND'],
    ['one', 'good', 'a long note about it', 'x'],
  ];
  assert.is(
    table(rows, 38),
    'NAME  STATE  NOTE                  KIND\none   good   a long note about it  x'.replace(/ +(KIND|x)$/gm, ''),
  );
  assert.is(table(rows, 39).split('\n')[0], 'NAME  STATE  NOTE                  KIND');
  assert.is(table(rows, 25), 'NAME  STATE  NOTE\none   good   a long note…');
  assert.is(table(rows, 20), 'NAME  STATE\none   good');
  assert.is(table(rows, 3), 'NA…\none');
});

test('the text of a list wraps beside its head, or below it', () => {
  assert.is(
    facts([
      ['pid', '7'],
      ['', 'more'],
    ]),
    'pid:  7\n      more',
  );
  assert.is(
    facts([['path', 'one two three four five six seven']], 31),
    'path:  one two three four five\n       six seven',
  );
  const flags = [
    ['-h', 'help for this command'],
    ['--a-flag-that-is-long VALUE', 'what it does'],
  ];
  assert.is(definitions(flags, 36), '-h  help for this command\n--a-flag-that-is-long VALUE\n    what it does');
  assert.is(definitions([['a rather long head', 'text']], 30), 'a rather long head\n    text');
});

test('paragraphs wrap between words; a longer word is divided, after a slash if there is one', () => {
  assert.is(wrap('one two three', 7), 'one two\nthree');
  assert.is(wrap('one two three', 7, '  '), 'one two\n  three');
  assert.is(wrap('unbreakable', 4), 'unbr\neaka\nble');
  assert.is(wrap('in /usr/local/lib/svc', 12), 'in\n/usr/local/\nlib/svc');
  assert.is(wrap('日本語を話す', 5), '日本\n語を\n話す');
  assert.is(wrap('any text stays', Infinity), 'any text stays');
  assert.is(fit('  short\n  one two three', 10), '  short\n  one two\n  three');
  assert.is(wrapLine(['svc', 'run', '"a b"'], 10, '  ', ' \\'), 'svc run \\\n  "a b"');
});

test('a word of 256 KiB is wrapped in time', () => {
  const start = performance.now();
  assert.is(wrap('x'.repeat(256 * 1024), 64).split('\n').length, 4096);
  assert.ok(performance.now() - start < 10_000);
});

test.run();

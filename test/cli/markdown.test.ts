/** Markdown of answers on a terminal: what is rendered, while it arrives, at any width, and that it is safe. */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { MarkdownStream } from '../../src/cli/terminal/markdown.ts';
import { width } from '../../src/cli/terminal/width.ts';
import { chunk } from '../backends/cloud/cloud-support.ts';
import { startUpstream, type Upstream } from '../backends/cloud/upstream.ts';
import { assertExit } from '../support/exit.ts';
import { makeHome, type Home } from '../support/home.ts';
import { svc, SVC_COMMAND } from '../support/svc.ts';
import { KEYS, NO_TERMINAL, Terminal } from '../support/terminal.ts';

/** Visible styles: a letter before the text that has it. */
const NAMED = {
  bold: (text: string) => `<b>${text}</b>`,
  italic: (text: string) => `<i>${text}</i>`,
  strike: (text: string) => `<s>${text}</s>`,
  underline: (text: string) => `<u>${text}</u>`,
  code: (text: string) => `<c>${text}</c>`,
  dim: (text: string) => `<d>${text}</d>`,
};
const plain = (text: string): string => text;
const PLAIN = { bold: plain, italic: plain, strike: plain, underline: plain, code: plain, dim: plain };

/** Renders `text`, which arrives in pieces of `size` characters. */
function render(text: string, { styles = NAMED, columns = 1000, size = text.length } = {}): string {
  const stream = new MarkdownStream({ styles, columns: () => columns });
  let written = '';
  for (let at = 0; at < text.length; at += size) written += stream.push(text.slice(at, at + size));
  return written + stream.end();
}

const CASES: readonly (readonly [markdown: string, rendered: string])[] = [
  ['plain text', 'plain text\n'],
  ['one\ntwo\n\nthree\n', 'one\ntwo\n\nthree\n'],
  ['## A title', '<b>A</b> <b>title</b>\n'],
  ['a **bold** word, *slanted*, ~~gone~~', 'a <b>bold</b> word, <i>slanted</i>, <s>gone</s>\n'],
  ['**two words**', '<b>two</b> <b>words</b>\n'],
  ['2 * 3 * 4 and a_name_here, #tag', '2 * 3 * 4 and a_name_here, #tag\n'],
  ['run `svc ps` now', 'run <c>svc</c> <c>ps</c> now\n'],
  ['`**not bold**`', '<c>**not</c> <c>bold**</c>\n'],
  ['a \\*star\\*', 'a *star*\n'],
  ['- one\n  - two\n1. three', '• one\n  • two\n1. three\n'],
  ['> quoted', '<d>│ </d>quoted\n'],
  ['see [the page](http://a.b/c) now', 'see <u>the page</u> <d>(http://a.b/c)</d> now\n'],
  ['[ ] open and [x] done', '[ ] open and [x] done\n'],
  ['---', `<d>${'─'.repeat(40)}</d>\n`],
  ['```js\nconst a = `b`;\n  **x**\n```\nafter', '<d>js</d>\n<c>const a = `b`;</c>\n<c>  **x**</c>\nafter\n'],
  ['```\nopen', '<c>open</c>\n'],
  ['| A | B |\n|---|---|\n| `x` | **y** |\nend', '<b>A</b>  <b>B</b>\n<c>x</c>  <b>y</b>\nend\n'],
  ['1.5 is a number', '1.5 is a number\n'],
  ['', ''],
];

const test = suite<{ home: Home; upstream: Upstream }>('markdown');

test('each form is rendered, however it arrives', () => {
  // Code that arrives in parts has its style for each part.
  const joined = (text: string): string => text.replaceAll('</c><c>', '');
  for (const [markdown, rendered] of CASES)
    for (const size of [1, 2, 3, 7, 1000])
      assert.is(joined(render(markdown, { size })), rendered, `${markdown} by ${String(size)}`);
});

test('a word is written as soon as it is complete', () => {
  const stream = new MarkdownStream({ styles: NAMED, columns: () => 80 });
  assert.is(stream.push('one tw'), 'one');
  assert.is(stream.push('o three'), ' two');
  assert.is(stream.push('\n'), ' three\n');
  assert.is(stream.push('日本'), '日本');
  assert.is(stream.end(), '\n');
});

test('text wraps at words under its list or quote; code does not', () => {
  assert.is(render('one two three', { styles: PLAIN, columns: 9 }), 'one two\nthree\n');
  assert.is(render('- one two three', { styles: PLAIN, columns: 9 }), '• one two\n  three\n');
  assert.is(render('> one two three', { styles: PLAIN, columns: 9 }), '│ one two\n│ three\n');
  assert.is(render('日本語を話す', { styles: PLAIN, columns: 5 }), '日本\n語を\n話す\n');
  assert.is(render('```\none two three\n```', { styles: PLAIN, columns: 9 }), 'one two three\n');
});

test('no line of text is wider than the terminal, and a wide table loses nothing', () => {
  const words =
    'Lorem **ipsum** dolor 日本語のテキスト 🎉🎉 https://example.com/a/long/path/that/does/not/end `code here` ';
  const table = `| Name | Meaning |\n|---|---|\n| first | ${'many words '.repeat(12)}|\n| second | 漢字漢字漢字漢字漢字漢字漢字漢字 |\n`;
  const text = `# ${words}\n\n${words.repeat(4)}\n\n- ${words}\n  1. ${words}\n\n> ${words}\n\n${table}`;
  for (const columns of [20, 40, 60, 80, 160]) {
    const rendered = render(text, { styles: PLAIN, columns });
    for (const line of rendered.split('\n')) assert.ok(width(line) <= columns, `${String(columns)}: ${line}`);
    for (const word of ['first', 'second', 'Meaning']) assert.ok(rendered.includes(word), word);
    assert.is(rendered.match(/漢/g)?.length, 8);
    assert.is(rendered.match(/many/g)?.length, 12);
  }
});

test('hostile text is bounded in time and memory', () => {
  const start = process.cpuUsage();
  for (const piece of ['[', '[a](', '*', '`', '|', '~', '_', '> ', '#', 'x', '\n|', '![', '**a', '日'])
    render(piece.repeat(Math.ceil(65_536 / piece.length)), { styles: PLAIN, columns: 80, size: 1000 });
  assert.ok(process.cpuUsage(start).user < 60e6);
});

const ANSWER = ['# Ti', 'tle\n\nSome **bold** te', 'xt.\u001b[2J\u001b]0;owned\u0007\u009b31m\n\n- item\n'];

test.before(async (context) => {
  context.home = await makeHome();
  context.upstream = await startUpstream(async (turn) => {
    for (const content of ANSWER) await turn.event(chunk({ role: 'assistant', content }));
    await turn.event(chunk({ content: '' }, 'stop'));
    await turn.event('[DONE]');
    turn.end();
  });
  const set = await svc(
    ['provider', 'set', 'mine', '--base-url', context.upstream.url, '--default-model', 'm'],
    context,
  );
  assertExit(set, 0);
  assertExit(await svc(['start', '--timeout', '150s'], context), 0);
});
test.after(async ({ home, upstream }) => {
  await svc(['stop', '--force'], { home });
  await upstream.close();
  await home.remove();
});

const RENDERED = /\u001b\[1mTitle\u001b\[22m\r\n\r\nSome \u001b\[1mbold\u001b\[22m text\.[^\u001b]*\r\n\r\n• item\r\n/;

test('svc run renders on a terminal, and no escape sequence of the answer reaches it', async ({ home }) => {
  if (NO_TERMINAL !== undefined) return;
  const env = { ...home.env, NO_COLOR: undefined };
  for (const flags of [[], ['--no-stream']]) {
    const terminal = new Terminal([...SVC_COMMAND, 'run', '--provider', 'mine', ...flags, 'hi'], env, { columns: 60 });
    assert.is(await terminal.end(), 0);
    assert.match(terminal.raw, RENDERED);
    assert.not.match(terminal.raw, /\u001b\[2J|\u001b\]|\u0007|\u009b/);
  }
  for (const [flags, more] of [
    [['--raw'], {}],
    [[], { NO_COLOR: '1' }],
  ] as const) {
    const terminal = new Terminal(
      [...SVC_COMMAND, 'run', '--provider', 'mine', ...flags, 'hi'],
      { ...env, ...more },
      { columns: 60 },
    );
    assert.is(await terminal.end(), 0);
    assert.match(terminal.raw, /# Title\r\n\r\nSome \*\*bold\*\* text/);
    assert.not.match(terminal.raw, /\u001b\[2J|\u001b\]|\u0007|\u009b/);
  }
});

test('a pipe has the answer as it is', async ({ home }) => {
  const { stdout } = await svc(['run', '--provider', 'mine', 'hi'], { home, env: { FORCE_COLOR: '1' } });
  assert.is(stdout, ANSWER.join(''));
});

test('svc chat renders, too', async ({ home }) => {
  if (NO_TERMINAL !== undefined) return;
  const chat = new Terminal(
    [...SVC_COMMAND, 'chat', '--provider', 'mine'],
    { ...home.env, NO_COLOR: undefined },
    { columns: 60 },
  );
  await chat.shows(/>>> $/);
  chat.type(`hi${KEYS.enter}`);
  await chat.shows(/• item\n/);
  assert.match(chat.raw, RENDERED);
  chat.type(KEYS.ctrlD);
  assert.is(await chat.end(), 0);
});

test.run();

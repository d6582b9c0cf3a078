/** The recording of the terminal: how it becomes a picture, and what the one in docs/images names. */
import { readFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { loadSpecs } from '../../../src/cli/commands.ts';
import { dispatch, parse } from '../../../src/cli/parse.ts';
import { read } from '../../architecture/source-files.ts';
import { formatCast, parseCast, type Cast } from './cast.ts';
import { play } from './film.ts';
import { pathOf, SIZES } from './recordings.ts';
import { toSvg } from './svg.ts';

const SPECS = await loadSpecs();
const MOST_BYTES = 200_000;

function castOf(...output: [seconds: number, text: string][]): Cast {
  return {
    width: 20,
    height: 3,
    title: 'a <title>',
    idleSeconds: 2,
    output: output.map(([seconds, text]) => ({ seconds, text })),
  };
}

/** Versions of a line as [from, to, text]. */
async function lineOf(cast: Cast, line: number): Promise<unknown[]> {
  const { versions } = await play(cast);
  return versions
    .filter((each) => each.line === line)
    .map(({ from, to, runs }) => [from, to, runs.map(({ text }) => text).join('|')]);
}

test('a cast is one line of JSON for the header and one for each event, and is read back', () => {
  const cast = castOf([0, '$ '], [1.25, 'ls\r\n']);
  const lines = formatCast(cast).trimEnd().split('\n');
  assert.is(JSON.parse(lines[0] ?? '').version, 2);
  assert.equal(JSON.parse(lines[2] ?? ''), [1.25, 'o', 'ls\r\n']);
  assert.equal(parseCast(formatCast(cast)), cast);
});

test('a line has a version for each of its contents; the cursor is part of it', async () => {
  const cast = castOf([0, '$ '], [0.5, '10 %'], [1, '\r$ 20 %'], [1.5, '\r\n']);
  assert.equal(await lineOf(cast, 0), [
    [0, 0.5, '$|█'],
    [0.5, 1, '$ 10 %|█'],
    [1, 1.5, '$ 20 %|█'],
    [1.5, null, '$ 20 %'],
  ]);
});

test('output within a tenth of a second is shown together, and long pauses are shortened', async () => {
  const cast = castOf([0, 'a'], [0.01, 'b'], [60, 'c'], [61, 'd']);
  assert.equal(await lineOf(cast, 0), [
    [0, 2, 'ab|█'],
    [2, 3, 'abc|█'],
    [3, null, 'abcd|█'],
  ]);
});

test('lines keep their number when the screen scrolls, also those that were never on a frame', async () => {
  const cast = castOf([0, 'first\r\n'], [1, '2\r\n3\r\n4\r\n5\r\n6']);
  const { scrolls, text } = await play(cast);
  assert.equal(scrolls, [
    { seconds: 0, line: 0 },
    { seconds: 1, line: 3 },
  ]);
  assert.is(text, 'first\n2\n3\n4\n5\n6');
  assert.equal(await lineOf(cast, 2), [[1, null, '3']]);
});

test('a wrapped line is one line of the text', async () => {
  const words = 'svc model list --json with more words';
  assert.is((await play(castOf([0, `${words}\r\nend`]))).text, `${words}\nend`);
});

test('styles and wide characters become spans at their columns', async () => {
  const [version] = (await play(castOf([0, '\u001b[32mok\u001b[39m \u001b[1;2m日本\u001b[0m<&\r\n']))).versions;
  assert.equal(
    version?.runs.map(({ column, width, text, style }) => [column, width, text, style.color, style.isBold]),
    [
      [0, 2, 'ok', 2, false],
      [3, 4, '日本', null, true],
      [7, 2, '<&', null, false],
    ],
  );
  const svg = toSvg(await play(castOf([0, '\u001b[32mok\u001b[39m <&\r\n'])));
  assert.match(svg, '<tspan x="0" textLength="16.8" class="c2">ok</tspan><tspan x="16.8" textLength="25.2"> &lt;&amp;');
  assert.match(svg, '<title>a &lt;title></title>');
});

test('a colour outside the palette is an error', async () => {
  const error = await play(castOf([0, '\u001b[38;5;200mx'])).catch((reason: unknown) => reason);
  assert.match(String(error), 'no colour 200 in the palette');
});

test('each version is visible for its time only, and the last screen without animations', async () => {
  const svg = toSvg(await play(castOf([0, 'a'], [1, 'b\r\n'])));
  // One second of recording and five seconds of rest.
  assert.match(svg, '{0%{visibility:visible}16.67%,to{visibility:hidden}}');
  assert.match(svg, '{0%{visibility:hidden}16.67%{visibility:visible}to{visibility:visible}}');
  assert.is(svg.match(/<text [^>]*class="o"/g)?.length, 1);
  assert.match(svg, /prefers-reduced-motion:reduce\)\{text,\.s\{animation:none/);
});

for (const size of SIZES) {
  test(`the recording of ${size} names only commands and flags that exist`, async () => {
    const { text, rows, columns } = await play(parseCast(readFileSync(pathOf(size, 'cast'), 'utf8')));
    assert.is(`${columns}x${rows}`, size);
    const typed = [...text.matchAll(/^\$ (.+)$/gm)].map(([, command = '']) => command);
    assert.ok(read('README.md').includes(`\n${typed[0] ?? ''}\n`), 'the first command is that of README.md');
    assert.ok(typed.filter((command) => command.startsWith('svc ')).length >= 6, typed.join('\n'));
    for (const command of typed.filter((each) => each.startsWith('svc '))) {
      const words = [...command.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, bare]) => quoted ?? bare ?? '');
      dispatch(words.slice(1), {
        version: () => undefined,
        help: () => undefined,
        command: (name, rest) => parse(name, SPECS[name], rest),
      });
    }
  });

  test(`the picture of ${size} is that of the recording, small, and names no machine`, async () => {
    const cast = readFileSync(pathOf(size, 'cast'), 'utf8');
    const svg = readFileSync(pathOf(size, 'svg'), 'utf8');
    assert.ok(toSvg(await play(parseCast(cast))) === svg, `npm run recording was not run again for ${size}`);
    assert.ok(svg.length < MOST_BYTES, `${svg.length} bytes`);
    assert.not.match(cast, /\/(work|root|Users|tmp)\/|npmjs|\bnode_modules\/\.bin/);
  });
}

test.run();

/**
 * `svc run --think` and `svc chat --think` with a model that reasons: folded into one line on a terminal, dimmed with
 * `--raw`, left out elsewhere.
 */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { GenerateResult } from '../../src/protocol/generate.ts';
import { assertExit } from '../support/exit.ts';
import { makeHome, type Home } from '../support/home.ts';
import { modelPath } from '../support/native-engine.ts';
import { unless } from '../support/skip.ts';
import { svc, SVC_COMMAND, type SvcResult } from '../support/svc.ts';
import { KEYS, NO_TERMINAL, Terminal } from '../support/terminal.ts';

/** The reasoning of random weights ends at the effort's limit: 256 tokens. */
const STEADY = ['-m', 'thinker', '--seed', '1', '--max-tokens', '270'];
const MINIMAL = ['--think', 'minimal'];
const DIM = /\u001b\[2m([^\u001b]*)\u001b\[22m/g;

let home: Home;
const terminals: Terminal[] = [];
test.before(async () => {
  home = await makeHome();
  assertExit(await svc(['model', 'add', modelPath('tiny-thinker'), '--name', 'thinker'], { home }), 0);
  assertExit(await svc(['start', '--timeout', '150s'], { home }), 0);
});
test.after.each(() => {
  for (const terminal of terminals.splice(0)) terminal.kill();
});
test.after(async () => {
  await svc(['stop', '--force'], { home });
  await home.remove();
});

const run = (...args: string[]): Promise<SvcResult> => svc(['run', ...STEADY, ...args, 'How many?'], { home });
const result = async (think = 'minimal'): Promise<GenerateResult> =>
  JSON.parse((await run('--json', '--think', think)).stdout) as GenerateResult;

function onTerminal(...args: string[]): Terminal {
  const made = new Terminal([...SVC_COMMAND, ...args], { ...home.env, NO_COLOR: undefined });
  terminals.push(made);
  return made;
}

/** As a terminal shows it: control characters are left out, and line ends have a carriage return. */
const shown = (text: string): string => text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, '').trim();

function partsOf(raw: string): { dimmed: string; plain: string } {
  const dimmed = [...raw.matchAll(DIM)].map(([, text]) => text).join('');
  return { dimmed: shown(dimmed), plain: raw.replace(DIM, '') };
}

test('JSON has the reasoning, a pipe the answer alone, and off leaves it out', async () => {
  const { text, reasoning = '' } = await result();
  assert.ok(reasoning.length > 0 && text.length > 0);
  assert.is((await run(...MINIMAL)).stdout.trimEnd(), text.trimEnd());
  const off = await result('off');
  assert.is(off.reasoning, undefined);
  assert.ok(off.text.length > 0);
});

const atKeyboard = unless(NO_TERMINAL, test);

/** Lines as a terminal shows them at the end: what was drawn before a return to the start and an erasure is gone. */
const finalLines = (raw: string): string[] =>
  raw
    .replaceAll('\r\n', '\n')
    .split('\n')
    .map((line) => line.slice(line.lastIndexOf('\r\u001b[K') + 1).replace(/\u001b\[[0-9;]*[a-zA-Z]/g, ''));

/** Asserts that the thinking was shown live, in one line, and is one line now. */
function assertFolded(raw: string, reasoning: string): string[] {
  const words = reasoning.split(/\s+/).filter((word) => word !== '').length;
  const live = [...raw.matchAll(/\r\u001b\[K\u001b\[2mthinking… (\d+)s, ([\d,]+) words?\u001b\[22m/g)];
  assert.ok(live.length > 0, raw);
  const counts = live.map(([, , shown = '']) => Number(shown.replaceAll(',', '')));
  assert.ok(counts.every((count, index) => count <= words && count >= (counts[index - 1] ?? 0)));
  const lines = finalLines(raw);
  const folded = lines.filter((line) => /^(thinking|thought)/.test(line));
  assert.is(folded.length, 1, lines.join('\n'));
  assert.match(folded[0] ?? '', new RegExp(`^thought for \\d+s, ${words.toLocaleString('en-US')} words?$`));
  assert.not.ok(shown(raw).includes(shown(reasoning)), 'not the reasoning itself');
  return lines.slice(lines.indexOf(folded[0] ?? '') + 1);
}

atKeyboard('svc run folds the reasoning into one line on a terminal', async () => {
  const { text, reasoning = '' } = await result();
  const terminal = onTerminal('run', ...STEADY, ...MINIMAL, 'How many?');
  assert.is(await terminal.end(), 0);
  const after = assertFolded(terminal.raw, reasoning);
  assert.is(after[0], '', 'a blank line before the answer');
  assert.ok(text.length > 0 && after.slice(1).join('').trim() !== '');
});

atKeyboard('svc chat does it, too, and an interrupted answer ends the line', async () => {
  const { reasoning = '' } = await result();
  const terminal = onTerminal('chat', ...STEADY, ...MINIMAL);
  await terminal.shows(/>>> $/);
  terminal.type(`How many?${KEYS.enter}`);
  await terminal.shows(/thought for [^]*\n>>> $/);
  assertFolded(terminal.raw, reasoning);
  terminal.clear();
  terminal.type(`Once more?${KEYS.enter}`);
  await terminal.shows('thinking…');
  terminal.type(KEYS.ctrlC);
  await terminal.shows(/thought for [^\n]*\n[^]*>>> $/);
  terminal.type(KEYS.ctrlD);
  assert.is(await terminal.end(), 0);
});

atKeyboard('--raw shows the whole reasoning, dimmed', async () => {
  const { text, reasoning = '' } = await result();
  const terminal = onTerminal('run', '--raw', ...STEADY, ...MINIMAL, 'How many?');
  assert.is(await terminal.end(), 0);
  const { dimmed, plain } = partsOf(terminal.raw);
  assert.is(dimmed, shown(reasoning));
  assert.ok(shown(plain).endsWith(shown(text)), plain);
});

atKeyboard('svc chat dims it, too', async () => {
  const { text, reasoning = '' } = await result();
  const terminal = onTerminal('chat', '--raw', ...STEADY, ...MINIMAL);
  await terminal.shows(/>>> $/);
  terminal.type(`How many?${KEYS.enter}`);
  await terminal.shows(/How many\?\n[^]*\n>>> $/);
  const { dimmed, plain } = partsOf(terminal.raw);
  assert.is(dimmed, shown(reasoning));
  assert.ok(shown(plain).includes(shown(text)), plain);
  terminal.type(KEYS.ctrlD);
  assert.is(await terminal.end(), 0);
});

test.run();

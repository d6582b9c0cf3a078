/** `npm run chaos`: a few of its faults, that it can say no, and that docs/reliability.md is its table. */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Fault } from '../../scripts/chaos/fault.ts';
import { FAULTS } from '../../scripts/chaos/faults.ts';
import { judge } from '../../scripts/chaos/judge.ts';
import { page } from '../../scripts/chaos/page.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const DOCUMENT = fileURLToPath(new URL('../../docs/reliability.md', import.meta.url));

test('a few faults, planted by the script', async () => {
  const before = readFileSync(DOCUMENT, 'utf8');
  const only = '^(idle engine killed|config broken at a reload|body that is no JSON)$';
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ['--import', 'tsx', 'scripts/chaos.ts', '--only', only],
    { cwd: ROOT },
  );
  assert.is(stdout.trimEnd().split('\n').at(-1), '3 passed, 0 failed');
  assert.is(readFileSync(DOCUMENT, 'utf8'), before, 'a part of the faults is not the page');
});

test('what a fault declares is judged, not told', async () => {
  const harmless: Fault = {
    name: 'nothing',
    planted: 'nothing',
    mended: 'by itself',
    withinSeconds: 30,
    daemon: 'lives',
    sees: /^nothing$/,
    async plant(scene) {
      await scene.timed(() => undefined);
      return 'nothing';
    },
  };
  const problemsOf = async (changes: Partial<Fault>): Promise<readonly string[]> => {
    const { verdict, problems } = await judge({ ...harmless, ...changes }, () => undefined);
    assert.is(verdict, 'failed');
    return problems;
  };
  assert.match((await problemsOf({ sees: /^something$/ })).join(), 'the user saw something else');
  assert.match((await problemsOf({ daemon: 'ends' })).join(), 'the daemon is the same');
  const refused = await problemsOf({
    async plant(scene) {
      await scene.timed(() => undefined);
      await scene.requests.ask({ model: 'nobody' });
      return 'nothing';
    },
  });
  assert.equal(refused, ['1 requests ended with model_not_found']);
});

test('docs/reliability.md has a row for each fault, and none has failed', () => {
  const rowsOf = (text: string): string[][] =>
    text
      .slice(text.indexOf('| fault |'))
      .split('\n')
      .slice(2)
      .filter((line) => line.startsWith('| '))
      .map((line) => line.slice(2, -2).split(/(?<!\\) \| /));
  const rows = rowsOf(readFileSync(DOCUMENT, 'utf8'));
  const names = FAULTS.map(({ name }) => name);
  assert.is(new Set(names).size, names.length, 'no two have the same name');
  assert.ok(rows.length >= 40);
  assert.equal(
    rows.map(([name]) => name),
    names,
  );
  assert.equal(
    rows.filter((row) => !/^(passed|skipped: .+)$/.test(row.at(-1) ?? '')),
    [],
  );
  const requests = { sent: 0, answered: 0, failed: new Map(), lost: [] };
  const skipped = FAULTS.map((fault) => ({ fault, saw: '', recoverySeconds: null, requests }) as const).map(
    (row) => ({ ...row, verdict: 'skipped', problems: ['no'] }) as const,
  );
  assert.equal(
    rowsOf(page(skipped, 0)).map(([name, planted]) => [name, planted]),
    rows.map(([name, planted]) => [name, planted]),
    'the page is of this table: npm run chaos',
  );
});

test.run();

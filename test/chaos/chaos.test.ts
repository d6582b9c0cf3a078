/** `npm run chaos`: a few faults, its verdicts, and docs/reliability.md as its table. */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Fault } from './fault.ts';
import { FAULTS } from './faults.ts';
import { judge } from './judge.ts';
import { compared, digestOf, page, readPage, updatedPage } from './page.ts';
import { missingPart } from './texts.ts';
import { partOf, readPart, thirdOf } from '../../scripts/steps/part.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const DOCUMENT = fileURLToPath(new URL('../../docs/reliability.md', import.meta.url));

test('the script injects a few faults and they pass', async () => {
  const before = readFileSync(DOCUMENT, 'utf8');
  const only = '^(idle engine killed|config broken at a reload|body that is not JSON)$';
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ['--import', 'tsx', 'test/chaos/chaos.ts', '--only', only],
    { cwd: ROOT },
  );
  assert.is(stdout.trimEnd().split('\n').at(-1), '3 passed, 0 failed');
  assert.is(readFileSync(DOCUMENT, 'utf8'), before, 'a part of the faults is not the page');
});

test('the declarations of a fault are checked against what happened', async () => {
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
    const { verdict, problems } = await judge({ ...harmless, ...changes }, new Set());
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

test('the parts together contain every fault exactly once', () => {
  const parts = [1, 2, 3].map((number) => partOf(FAULTS, { number, of: 3 }));
  assert.equal(new Set(parts.flat()).size, FAULTS.length);
  assert.is(parts.flat().length, FAULTS.length);
  for (const part of parts) assert.ok(Math.abs(part.length - FAULTS.length / 3) < 1);
  assert.equal(readPart('2/3'), { number: 2, of: 3 });
  for (const text of ['0/3', '4/3', '1', 'a/b', '']) assert.throws(() => readPart(text), /--part takes K\/N/);
  const thirds = ['00000000', '00000001', '00000002'].map((hash) => thirdOf(hash.padEnd(40, 'f')).number);
  assert.equal(thirds, [1, 2, 3]);
});

const rowsOfPage = readPage(readFileSync(DOCUMENT, 'utf8'));

test('docs/reliability.md has a passed row for each fault', () => {
  const names = FAULTS.map(({ name }) => name);
  assert.is(new Set(names).size, names.length, 'no two have the same name');
  assert.ok(names.length >= 114);
  assert.equal(
    rowsOfPage.map(({ fault }) => fault),
    names,
    'the page is of this table: npm run chaos',
  );
  assert.equal(
    rowsOfPage.filter(({ verdict }) => !/^(passed|skipped: .+)$/.test(verdict)),
    [],
  );
});

test('docs/reliability.md agrees with the declarations of the faults', () => {
  for (const fault of FAULTS) {
    const row = rowsOfPage.find((each) => each.fault === fault.name);
    assert.ok(row !== undefined);
    assert.is(row['how it was planted'].replaceAll('\\|', '|'), fault.planted, fault.name);
    assert.is(row.mended, fault.mended, fault.name);
    assert.is(row.limit, String(fault.withinSeconds), fault.name);
    if (row.verdict !== 'passed') continue;
    assert.match(row['what the user saw'].replaceAll('\\|', '|'), fault.sees, fault.name);
    if (fault.mayFail === undefined) assert.match(row['ended with an error'], /^[0–]$/, fault.name);
    assert.ok(Number(row.lost.replace('–', '0')) <= (fault.mayLose ?? 0), fault.name);
  }
});

test('no row of docs/reliability.md is edited, or older than the file that declares its fault', () => {
  const wrong = rowsOfPage.filter((cells) => cells.digest !== digestOf(cells)).map(({ fault }) => fault);
  assert.equal(wrong, [], 'measure these again: npm run chaos -- --only PATTERN --page');
});

test('what the user saw is still what svc says', () => {
  const gone = rowsOfPage.map((cells) => [cells.fault, missingPart(cells['what the user saw'])]);
  assert.equal(
    gone.filter(([, words]) => words !== null),
    [],
    'measure these again: npm run chaos -- --only PATTERN --page',
  );
});

test('single rows of the page can be replaced, and a missing row is an error', () => {
  const requests = { sent: 0, answered: 0, failed: new Map(), lost: [] };
  const row = { saw: 'a | b', recoverySeconds: 1, requests, verdict: 'passed', problems: [] } as const;
  const rows = FAULTS.map((fault) => ({ ...row, fault }));
  const commit = { hash: 'a'.repeat(40), subject: 'area: do this', date: '2026-01-02', isChanged: false };
  const before = page(rows, 60, commit);
  assert.match(before, `${String(FAULTS.length)} passed, 0 failed, 0 skipped`);
  assert.match(before, 'at the commit “area: do this” of 2026-01-02.');
  const [first, ...others] = rows;
  assert.throws(() => page(others, 60, commit), `has no row of "${String(first?.fault.name)}"`);
  const failed = { ...row, fault: first!.fault, verdict: 'failed', problems: ['no'] } as const;
  const after = updatedPage(before, [failed], { ...commit, isChanged: true });
  assert.match(after, `${String(FAULTS.length - 1)} passed, 1 failed, 0 skipped`);
  assert.match(after, `with changes that were not committed: ${first!.fault.name}.`);
  assert.is(readPage(after)[0]?.verdict, 'failed: no');
  assert.equal(readPage(after).slice(1), readPage(before).slice(1));
  assert.is(readPage(after)[1]?.['what the user saw'], 'a \\| b');
  assert.is(compared({ ...rows[1]!, saw: 'a | b' }, after).verdict, 'passed');
  assert.is(compared({ ...rows[1]!, saw: 'a | c' }, after).verdict, 'failed');
});

test.run();

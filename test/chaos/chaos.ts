/**
 * Injects faults into real daemons and checks for each that everything else keeps working.
 *
 *   npm run chaos [-- --only PATTERN | --part K/N | --third] [--jobs N] [--page]
 *
 * --only   the faults whose name matches the regular expression PATTERN
 * --part   the K-th of N parts of them
 * --third  one part of three, chosen by the hash of the commit that is checked out
 * --jobs   number of faults at once; default 1, as for the times on the page
 * --page   replaces the rows of these faults in docs/reliability.md
 *
 * A run of all faults writes docs/reliability.md; a run of some without --page checks that the user sees what their rows
 * have. A fault that cannot be injected on this machine is skipped and not counted. Exits with 1 if a check fails; the
 * last line is `N passed, N failed`.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { currentCommit } from './commit.ts';
import { FAULTS } from './faults.ts';
import type { Row } from './judge.ts';
import { compared, describe, page, updatedPage } from './page.ts';
import { partOf, readPart, thirdOf } from '../../scripts/steps/part.js';
import { Run } from './run.ts';

const DOCUMENT = new URL('../../docs/reliability.md', import.meta.url);

const { values } = parseArgs({
  options: {
    only: { type: 'string' },
    part: { type: 'string' },
    third: { type: 'boolean', default: false },
    jobs: { type: 'string', default: '1' },
    page: { type: 'boolean', default: false },
  },
});
const part = values.third ? thirdOf(currentCommit().hash) : readPart(values.part ?? '1/1');
const named = FAULTS.filter(({ name }) => values.only === undefined || new RegExp(values.only).test(name));
const chosen = partOf(named, part);
if (part.of > 1) {
  const why = values.third ? `, chosen by commit ${currentCommit().hash.slice(0, 12)}` : '';
  console.log(`part ${part.number} of ${part.of}${why}: ${chosen.length} of ${named.length} faults`);
}

const run = new Run(chosen);
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => void run.close().finally(() => process.kill(process.pid, signal)));
}

const startedAt = performance.now();
const isWritten = values.page || chosen.length === FAULTS.length;
const before = readFileSync(DOCUMENT, 'utf8');
const judged = (row: Row): Row => (isWritten ? row : compared(row, before));
const rows = (await run.plant(Math.max(1, Number(values.jobs)), (row) => console.log(describe(judged(row))))).map(
  judged,
);
const seconds = (performance.now() - startedAt) / 1000;
const count = (verdict: Row['verdict']): number => rows.filter((row) => row.verdict === verdict).length;
if (!run.isClosed) {
  if (chosen.length === FAULTS.length) writeFileSync(DOCUMENT, page(rows, seconds, currentCommit()));
  else if (values.page) writeFileSync(DOCUMENT, updatedPage(before, rows, currentCommit()));
}
if (count('skipped') > 0) console.log(`${String(count('skipped'))} skipped`);
console.log(`${String(count('passed'))} passed, ${String(count('failed'))} failed`);
if (count('failed') > 0 || count('passed') === 0) process.exitCode = 1;

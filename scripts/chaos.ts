/**
 * Plants faults into real daemons, one after the other, and judges what each must leave unharmed.
 *
 *   npm run chaos [-- --only PATTERN]
 *
 * --only  the faults whose name matches the regular expression PATTERN
 *
 * A whole run writes docs/reliability.md. A fault that cannot be planted on this machine says so and
 * is not counted. Ends with 1 when something does not hold; the last line is `N passed, N failed`.
 */
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { FAULTS } from './chaos/faults.ts';
import { judge, type Row } from './chaos/judge.ts';
import { describe, page } from './chaos/page.ts';
import type { Scene } from './chaos/scene.ts';

const { values } = parseArgs({ options: { only: { type: 'string' } } });
const chosen = FAULTS.filter(({ name }) => values.only === undefined || new RegExp(values.only).test(name));

const current: { scene: Scene | null; isOver: boolean } = { scene: null, isOver: false };
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    current.isOver = true;
    void Promise.resolve(current.scene?.close()).finally(() => process.kill(process.pid, signal));
  });
}

const startedAt = performance.now();
const rows: Row[] = [];
for (const fault of chosen) {
  if (current.isOver) break;
  const row = await judge(fault, (scene) => (current.scene = scene));
  rows.push(row);
  console.log(describe(row));
}
const seconds = (performance.now() - startedAt) / 1000;
const count = (verdict: Row['verdict']): number => rows.filter((row) => row.verdict === verdict).length;
if (values.only === undefined && !current.isOver) {
  writeFileSync(new URL('../docs/reliability.md', import.meta.url), page(rows, seconds));
}
if (count('skipped') > 0) console.log(`${String(count('skipped'))} skipped`);
console.log(`${String(count('passed'))} passed, ${String(count('failed'))} failed`);
if (count('failed') > 0 || count('passed') === 0) process.exitCode = 1;

/** docs/health.md describes every state, condition and figure as the code implements it. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { judge } from '../../src/daemon/conditions.ts';
import { CONDITION_NAMES, type CheckStatus, type Condition, type ConditionName } from '../../src/protocol/records.ts';
import { read } from './source-files.ts';

const page = read('docs/health.md');

/** Rows of the table under a heading, without backquotes. */
function rowsUnder(heading: string): Map<string, string[]> {
  const section = page.split(/^## /m).find((part) => part.startsWith(`${heading}\n`)) ?? '';
  const lines = section.split('\n').filter((line) => line.startsWith('|') && !/^\|[\s:|-]+\|$/.test(line));
  const cells = lines.map((line) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.replaceAll('`', '').trim()),
  );
  return new Map(cells.slice(1).map(([name = '', ...rest]) => [name, rest]));
}

function conditions(changes: Partial<Record<ConditionName, CheckStatus>>): Condition[] {
  return CONDITION_NAMES.map((name) => ({ name, status: changes[name] ?? 'ok', reason: '', since: '' }));
}

test('every state is documented with its HTTP answer', () => {
  const rows = rowsUnder('States');
  assert.equal([...rows.keys()], ['STOPPED', 'STARTING', 'READY', 'DEGRADED', 'STOPPING']);
  for (const [phase, changes] of [
    ['starting', {}],
    ['running', {}],
    ['running', { memory: 'warn' }],
    ['running', { engine: 'fail' }],
    ['draining', {}],
    ['stopping', {}],
  ] as const) {
    const { state, ready } = judge(phase, conditions(changes));
    const [meaning, readyz, mend] = rows.get(state) ?? [];
    assert.ok(readyz?.includes(ready ? '200' : '503'), state);
    assert.ok(meaning && mend, state);
  }
});

test('every condition is documented: what each status means and what to do', () => {
  const rows = rowsUnder('Conditions');
  assert.equal([...rows.keys()], [...CONDITION_NAMES]);
  for (const [name, cells] of rows) assert.ok(cells.length === 4 && cells.every((cell) => cell !== ''), name);
});

test('it names exactly the conditions that the local route needs', () => {
  const needed = CONDITION_NAMES.filter((name) => !judge('running', conditions({ [name]: 'fail' })).ready);
  const sentence = /^The local route can serve while neither (.*) is `fail`\.$/m.exec(page)?.[1] ?? '';
  assert.equal([...sentence.matchAll(/`(\w+)`/g)].map(([, name]) => name).sort(), [...needed].sort());
});

test('every figure that may be null is documented', () => {
  const types = read('src/protocol/records.ts');
  const body = (name: string): string => types.split(`export interface ${name} {`)[1]?.split('\n}')[0] ?? '';
  const nullable = (text: string): string[] =>
    [...text.matchAll(/readonly (\w+): number \| null;/g)].map(([, name]) => name ?? '');
  const documented = [...rowsUnder('Figures').keys()].join(', ');
  const names = [...nullable(body('HealthRecord')), ...nullable(body('LoadedModelHealth'))];
  assert.ok(names.includes('tokens_per_second') && names.includes('rss_bytes'));
  for (const name of names) {
    // The process id and the context length are not measurements.
    if (name === 'pid' || name === 'context_length') continue;
    assert.ok(new RegExp(`\\b${name}\\b`).test(documented), `${name} is not in docs/health.md`);
  }
});

test.run();

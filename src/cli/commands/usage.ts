/** `svc usage`: requests and tokens from the ledger; works without a daemon. */
import { resolvePaths } from '../../home/paths.ts';
import { usageByDay } from '../../usage/summary.ts';
import { jsonFlag, type Run, type Spec } from '../spec.ts';
import { count, text } from '../terminal/format.ts';
import { out } from '../terminal/output.ts';
import { table } from '../terminal/layout.ts';
import { printResult } from '../terminal/result.ts';

export const spec = {
  summary: 'Show requests and tokens by day, provider and model',
  flags: {
    days: { kind: 'count', most: 36_500, value: 'N', default: '30', summary: 'the last N days, in UTC' },
    by: { kind: 'choice', choices: ['key'], summary: 'key: group by API key, too' },
    json: jsonFlag,
  },
  examples: ['svc usage', 'svc usage --days 1', 'svc usage --by key', 'svc usage --json'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ days, json, by }) => {
  const byKey = by === 'key';
  const usage = await usageByDay(resolvePaths().stateDir, days, { byKey });
  const rows = usage.map((row) => [
    row.day,
    row.provider,
    ...(byKey ? [text(row.key ?? null)] : []),
    text(row.model),
    count(row.requests),
    count(row.failed),
    count(row.input_tokens),
    count(row.cached_tokens),
    count(row.output_tokens),
  ]);
  const titles = [
    'DAY',
    'PROVIDER',
    ...(byKey ? ['KEY'] : []),
    'MODEL',
    'REQUESTS',
    'FAILED',
    'INPUT',
    'CACHED',
    'OUTPUT',
  ];
  printResult(
    json,
    { usage },
    rows.length === 0 ? 'no requests were recorded' : table([titles, ...rows], out.tableColumns),
  );
};

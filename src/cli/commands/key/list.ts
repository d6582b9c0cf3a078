import { readKeyFile } from '../../../home/key-file.ts';
import { resolvePaths } from '../../../home/paths.ts';
import { shownKey } from '../../../home/shown-key.ts';
import { jsonFlag, type Run, type Spec } from '../../spec.ts';
import { count, text } from '../../terminal/format.ts';
import { out } from '../../terminal/output.ts';
import { table } from '../../terminal/layout.ts';
import { printResult } from '../../terminal/result.ts';

export const spec = {
  summary: 'List the API keys',
  flags: { json: jsonFlag },
  examples: ['svc key list', 'svc key list --json'],
} as const satisfies Spec;

export const run: Run<typeof spec> = ({ json }) => {
  const keys = readKeyFile(resolvePaths().keyFile).map(shownKey);
  const rows = keys.map((key) => [
    key.name,
    key.scope,
    text(key.expires_at),
    count(key.tokens_per_day),
    count(key.tokens_per_month),
    key.created_at,
    text(key.models?.join(', ') ?? null),
  ]);
  const titles = ['NAME', 'SCOPE', 'EXPIRES', 'TOKENS/DAY', 'TOKENS/MONTH', 'CREATED', 'MODELS'];
  printResult(json, { keys }, table([titles, ...rows], out.tableColumns));
};

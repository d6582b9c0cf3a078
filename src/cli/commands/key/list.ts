import { readKeyFile } from '../../../home/key-file.ts';
import { resolvePaths } from '../../../home/paths.ts';
import { shownKey } from '../../../home/shown-key.ts';
import { jsonFlag, type Run, type Spec } from '../../spec.ts';
import { count, table, text } from '../../terminal/format.ts';
import { printResult } from '../../terminal/output.ts';

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
    text(key.models?.join(', ') ?? null),
    count(key.tokens_per_day),
    count(key.tokens_per_month),
    text(key.expires_at),
    key.created_at,
  ]);
  const titles = ['NAME', 'SCOPE', 'MODELS', 'TOKENS/DAY', 'TOKENS/MONTH', 'EXPIRES', 'CREATED'];
  printResult(json, { keys }, table([titles, ...rows]));
};

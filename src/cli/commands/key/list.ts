import { readKeyFile } from '../../../home/key-file.ts';
import { resolvePaths } from '../../../home/paths.ts';
import { jsonFlag, type Run, type Spec } from '../../spec.ts';
import { table } from '../../terminal/format.ts';
import { printResult } from '../../terminal/output.ts';

export const spec = {
  summary: 'List the API keys',
  flags: { json: jsonFlag },
  examples: ['svc key list', 'svc key list --json'],
} as const satisfies Spec;

export const run: Run<typeof spec> = ({ json }) => {
  const keys = readKeyFile(resolvePaths().keyFile).map(({ sha256: _, ...key }) => key);
  const rows = keys.map((key) => [key.name, key.scope, key.created_at]);
  printResult(json, { keys }, table([['NAME', 'SCOPE', 'CREATED'], ...rows]));
};

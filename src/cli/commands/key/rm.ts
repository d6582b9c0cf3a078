import { removeKey } from '../../../home/key-file.ts';
import { resolvePaths } from '../../../home/paths.ts';
import { jsonFlag, type Run, type Spec } from '../../spec.ts';
import { say } from '../../terminal/output.ts';
import { printResult } from '../../terminal/result.ts';

export const spec = {
  summary: 'Remove an API key',
  detail: ['Requests with this key are refused from then on, also by a running daemon.'],
  arguments: [{ name: 'name', required: true }],
  flags: { json: jsonFlag },
  examples: ['svc key rm laptop'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ json }, { name }) => {
  const left = await removeKey(resolvePaths().keyFile, name);
  printResult(json, { removed: name }, `removed ${name}; requests with this key are refused from now on`);
  if (left === 0) say('no key is left: programs on this machine need none, other machines cannot connect');
};

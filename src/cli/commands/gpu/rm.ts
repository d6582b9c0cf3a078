import { removeBackends } from '../../../gpu/install.ts';
import { resolvePaths } from '../../../home/paths.ts';
import { jsonFlag, type Run, type Spec } from '../../spec.ts';
import { printResult } from '../../terminal/result.ts';

export const spec = {
  summary: 'Remove the GPU backend that `svc gpu install` has installed',
  detail: ['Models then run on the processor, in a running daemon after its restart. Succeeds if none is installed.'],
  flags: { json: jsonFlag },
  examples: ['svc gpu rm'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ json }) => {
  const removed = await removeBackends(resolvePaths());
  printResult(
    json,
    { removed },
    removed === 0 ? 'no GPU backend is installed' : 'removed the GPU backend; restart the daemon: svc restart',
  );
};

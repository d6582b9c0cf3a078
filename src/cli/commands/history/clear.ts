import { SvcError } from '../../../protocol/errors.ts';
import { openHistory } from '../../machine/history.ts';
import { jsonFlag, type Run, type Spec } from '../../spec.ts';
import { askYesNo } from '../../terminal/output.ts';
import { printResult } from '../../terminal/result.ts';

export const spec = {
  summary: 'Delete all kept conversations',
  flags: {
    yes: { kind: 'switch', short: 'y', summary: 'do not ask' },
    json: jsonFlag,
  },
  examples: ['svc history clear', 'svc history clear --yes'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ yes, json }) => {
  const { conversations } = openHistory();
  if (!yes) await confirm();
  const removed = await conversations.clear();
  printResult(json, { removed }, `removed ${String(removed)} conversation${removed === 1 ? '' : 's'}`);
};

async function confirm(): Promise<void> {
  const agreed = await askYesNo('delete all kept conversations?');
  if (agreed === true) return;
  if (agreed === false) throw new SvcError('CANCELLED', 'nothing was deleted');
  throw new SvcError('INVALID_REQUEST', 'this deletes all kept conversations', {
    hint: 'confirm it: svc history clear --yes',
  });
}

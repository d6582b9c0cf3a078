import { jsonFlag, type Run, type Spec } from '../../spec.ts';
import { count, text } from '../../terminal/format.ts';
import { table } from '../../terminal/layout.ts';
import { openHistory } from '../../machine/history.ts';
import { out, say } from '../../terminal/output.ts';
import { printResult } from '../../terminal/result.ts';

export const spec = {
  summary: 'List the kept conversations, the newest first',
  detail: ['Conversations of `svc chat` and `svc run --continue` are kept only if history.enabled is set.'],
  flags: { json: jsonFlag },
  examples: ['svc history list', 'svc history list --json'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ json }) => {
  const { enabled, conversations } = openHistory();
  const kept = await conversations.list();
  const rows = kept.map(({ id, updated_at, model, turns, title }) => [
    id,
    updated_at.slice(0, 16).replace('T', ' '),
    text(model),
    count(turns),
    title,
  ]);
  printResult(
    json,
    { enabled, conversations: kept },
    table([['ID', 'LAST (UTC)', 'MODEL', 'TURNS', 'BEGINS'], ...rows], out.tableColumns),
  );
  if (!json && !enabled) say('conversations are not kept; keep them: svc config set history.enabled true');
};

import { conversationNamed, openHistory } from '../../machine/history.ts';
import { jsonFlag, type Run, type Spec } from '../../spec.ts';
import { printResult } from '../../terminal/result.ts';

export const spec = {
  summary: 'Delete a kept conversation',
  detail: ['`last` is the newest one.'],
  arguments: [{ name: 'id', required: true }],
  flags: { json: jsonFlag },
  examples: ['svc history rm last', 'svc history rm 20261125-140301-9f2c'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ json }, { id: name }) => {
  const { id } = await conversationNamed(name);
  await openHistory().conversations.remove(id);
  printResult(json, { removed: id }, `removed ${id}`);
};

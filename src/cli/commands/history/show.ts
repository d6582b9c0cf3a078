import { textOf } from '../../../home/conversations.ts';
import { conversationNamed } from '../../machine/history.ts';
import { jsonFlag, type Run, type Spec } from '../../spec.ts';
import { printJson, write } from '../../terminal/output.ts';

export const spec = {
  summary: 'Print a kept conversation',
  detail: ['`last` is the newest one.'],
  arguments: [{ name: 'id', required: true }],
  flags: { json: jsonFlag },
  examples: ['svc history show last', 'svc history show 20261125-140301-9f2c --json'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ json }, { id }) => {
  const conversation = await conversationNamed(id);
  if (json) printJson(conversation);
  else write(conversation.messages.map((message) => `${message.role}: ${textOf(message)}\n`).join('\n'));
};

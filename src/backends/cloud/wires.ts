/** The APIs that can be spoken. */
import { SvcError } from '../../protocol/errors.ts';
import { chatCompletions } from './chat-completions.ts';
import type { Api } from './provider.ts';
import { responses } from './responses.ts';
import type { Wire } from './wire.ts';

const WIRES: Partial<Record<Api, Wire>> = { chat_completions: chatCompletions, responses };

export function wireOf(api: Api): Wire {
  const wire = WIRES[api];
  if (wire === undefined) throw new SvcError('CONFIG_INVALID', `the API ${api} is not known`);
  return wire;
}

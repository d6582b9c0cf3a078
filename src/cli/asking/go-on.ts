/** `svc run --continue`: continues the last kept conversation. */
import type { Conversation } from '../../home/conversations.ts';
import { SvcError } from '../../protocol/errors.ts';
import type { GenerateResult, Message } from '../../protocol/generate.ts';
import { given } from '../../protocol/given.ts';
import { KeptConversation, openHistory } from '../machine/history.ts';

export interface Continued {
  /** Messages before the prompt. */
  readonly messages: readonly Message[];
  /** Local model of the last answer; undefined: none. */
  readonly model: string | undefined;
  /** Keeps the conversation with the answer. `asked`: all messages of the request. */
  keep(asked: readonly Message[], result: GenerateResult): Promise<void>;
}

/** Without an earlier conversation a new one begins. @throws SvcError CONFIG_INVALID if none are kept */
export async function lastConversation(): Promise<Continued> {
  const history = openHistory();
  if (!history.enabled) {
    throw new SvcError('CONFIG_INVALID', 'conversations are not kept, so there is none to continue', {
      hint: 'keep them from now on, as files that only you can read: svc config set history.enabled true',
    });
  }
  const last: Conversation | null = await history.conversations.last();
  const kept = new KeptConversation(history, last ?? undefined);
  return {
    messages: last?.messages ?? [],
    model: last?.model ?? undefined,
    async keep(asked, result) {
      const answer: Message = {
        role: 'assistant',
        content: result.text,
        ...given({ tool_calls: result.tool_calls?.slice() }),
      };
      await kept.keep([...asked, answer], result);
    },
  };
}

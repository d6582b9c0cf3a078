/**
 * The answer to a request with a limit of 0 tokens, which only has its prompt computed, so that the next request finds
 * it in the prefix cache. One token is generated for it, which the client does not get.
 */
import type { AnswerEvent, FinishEvent } from '../generate.ts';

/** The events of such an answer without what was generated. */
export async function* withoutContent(
  events: AsyncIterable<AnswerEvent>,
): AsyncGenerator<AnswerEvent, void, undefined> {
  for await (const event of events) {
    if (event.type === 'finish') yield emptied(event);
    else if (event.type === 'route' || event.type === 'start') yield event;
  }
}

function emptied({ type, reason, usage, timings }: FinishEvent): FinishEvent {
  return {
    type,
    reason: reason === 'cancelled' ? reason : 'length',
    usage: usage === null ? null : { ...usage, output_tokens: 0 },
    timings,
  };
}

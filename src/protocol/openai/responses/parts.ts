/** Events about the parts of an item: their text, and their ends. */
import type { MessageItem, OutputItem, OutputText, ReasoningItem, TokenLogprobRecord } from './items.ts';

/** An event without its number. */
export interface PartEvent {
  readonly type: string;
  readonly [field: string]: unknown;
}

/** Adds text to a message. An empty text only begins its part. */
export function textDelta(
  item: MessageItem,
  index: number,
  text: string,
  logprobs: readonly TokenLogprobRecord[],
): PartEvent[] {
  const at = { item_id: item.id, output_index: index, content_index: 0 };
  const events: PartEvent[] = [];
  let [part] = item.content;
  if (part === undefined) {
    part = { type: 'output_text', text: '', annotations: [], logprobs: [] };
    item.content.push(part);
    events.push({ type: 'response.content_part.added', ...at, part: structuredClone(part) });
  }
  part.text += text;
  part.logprobs.push(...logprobs);
  if (text !== '') events.push({ type: 'response.output_text.delta', ...at, delta: text, logprobs });
  return events;
}

/** Adds text to reasoning: to its summary if it has no content. */
export function reasoningDelta(item: ReasoningItem, index: number, text: string): PartEvent[] {
  const at = { item_id: item.id, output_index: index };
  const { content, summary } = item;
  if (content === undefined) {
    const [known] = summary;
    const part = known ?? { type: 'summary_text', text: '' };
    if (known === undefined) summary.push(part);
    const begin = { type: 'response.reasoning_summary_part.added', ...at, summary_index: 0, part: { ...part } };
    part.text += text;
    const delta = { type: 'response.reasoning_summary_text.delta', ...at, summary_index: 0, delta: text };
    return known === undefined ? [begin, delta] : [delta];
  }
  const [known] = content;
  const part = known ?? { type: 'reasoning_text', text: '' };
  if (known === undefined) content.push(part);
  const begin = { type: 'response.content_part.added', ...at, content_index: 0, part: { ...part } };
  part.text += text;
  const delta = { type: 'response.reasoning_text.delta', ...at, content_index: 0, delta: text };
  return known === undefined ? [begin, delta] : [delta];
}

/** The events before `output_item.done`. */
export function doneEvents(item: OutputItem, index: number): PartEvent[] {
  const at = { item_id: item.id, output_index: index };
  switch (item.type) {
    case 'message':
      return item.content.flatMap((part, content_index) => textDone(part, { ...at, content_index }));
    case 'reasoning':
      return [
        ...item.summary.flatMap(({ text }, summary_index) => [
          { type: 'response.reasoning_summary_text.done', ...at, summary_index, text },
          { type: 'response.reasoning_summary_part.done', ...at, summary_index, part: { type: 'summary_text', text } },
        ]),
        ...(item.content ?? []).flatMap(({ text }, content_index) => [
          { type: 'response.reasoning_text.done', ...at, content_index, text },
          { type: 'response.content_part.done', ...at, content_index, part: { type: 'reasoning_text', text } },
        ]),
      ];
    case 'function_call': {
      const { name, arguments: text } = item;
      return [{ type: 'response.function_call_arguments.done', ...at, name, arguments: text }];
    }
  }
}

function textDone(part: OutputText, at: object): PartEvent[] {
  const { text, logprobs } = part;
  return [
    { type: 'response.output_text.done', ...at, text, logprobs },
    { type: 'response.content_part.done', ...at, part: structuredClone(part) },
  ];
}

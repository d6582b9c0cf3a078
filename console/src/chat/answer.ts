/** Streams one answer into its turn. */
import type { GenerateLine } from '../../../src/protocol/routes.ts';
import { HTTP_ROUTES } from '../../../src/protocol/routes.ts';
import type { GenerateInput, ToolCallEvent } from '../../../src/protocol/generate.ts';
import type { ToolCall } from '../../../src/protocol/generate.ts';
import { ApiError } from '../api/api-error.ts';
import { askLines } from '../api/request.ts';
import type { AssistantTurn } from './conversation.ts';

/**
 * Calls `onChange` with each state of the turn; the last one is `done`, `stopped` (by `signal`) or `failed`. Never
 * throws.
 */
export async function streamAnswer(
  request: GenerateInput,
  first: AssistantTurn,
  signal: AbortSignal,
  onChange: (turn: AssistantTurn) => void,
): Promise<AssistantTurn> {
  let turn = first;
  const change = (next: Partial<AssistantTurn>): void => onChange((turn = { ...turn, ...next }));
  try {
    for await (const event of askLines<GenerateLine>(HTTP_ROUTES.runtimeGenerate, { body: request, signal }))
      change(after(turn, event));
    if (turn.state !== 'done') throw ApiError.cutOff();
  } catch (thrown) {
    const { message, hint, isCancelled } = ApiError.from(thrown);
    if (isCancelled || signal.aborted) change({ state: 'stopped' });
    else change({ state: 'failed', failure: { message, ...(hint === null ? {} : { hint }) } });
  }
  return turn;
}

function after(turn: AssistantTurn, event: Exclude<GenerateLine, { type: 'error' }>): Partial<AssistantTurn> {
  switch (event.type) {
    case 'route':
      return {};
    case 'start':
      return { state: 'streaming', answeredBy: { model: event.model, provider: event.provider } };
    case 'text':
      return { text: turn.text + event.text };
    case 'reasoning':
      return { reasoning: turn.reasoning + event.text };
    case 'tool_call':
      return { toolCalls: withPart(turn.toolCalls, event) };
    case 'finish':
      return { state: 'done', reason: event.reason, usage: event.usage, timings: event.timings };
  }
}

function withPart(calls: readonly ToolCall[], part: ToolCallEvent): ToolCall[] {
  const { id = '', name = '', arguments: text } = calls[part.index] ?? { arguments: '' };
  const next = [...calls];
  next[part.index] = { id: part.id ?? id, name: part.name ?? name, arguments: text + part.arguments };
  return next;
}

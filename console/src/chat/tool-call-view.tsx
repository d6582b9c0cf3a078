/** A tool that the model calls. The page runs none: the user may give the result. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { ToolCall } from '../../../src/protocol/generate.ts';
import { hasResult, type Conversation } from './conversation.ts';
import { giveResult } from './conversations.ts';

interface Props {
  readonly conversation: Conversation;
  readonly call: ToolCall;
}

export function ToolCallView({ conversation: { id, turns }, call }: Props): JSX.Element {
  const [result, setResult] = useState('');
  // A result can only follow a whole call, and comes too late once the conversation has gone on.
  const last = turns.findLast(({ role }) => role !== 'tool');
  const isAwaited =
    last?.role === 'assistant' && last.state === 'done' && last.toolCalls.includes(call) && !hasResult(call.id, turns);
  const submit = (event: Event): void => {
    event.preventDefault();
    giveResult(id, call.id, result);
  };
  return (
    <details class="tool-call" open={isAwaited}>
      <summary>
        Calls <code>{call.name}</code>
      </summary>
      <pre tabIndex={0} role="region" aria-label={`Arguments of ${call.name}`}>
        {indented(call.arguments)}
      </pre>
      {isAwaited && (
        <form onSubmit={submit} class="row">
          <input
            aria-label={`Result of ${call.name}`}
            placeholder="Result of the tool"
            value={result}
            onInput={({ currentTarget }) => setResult(currentTarget.value)}
          />
          <button type="submit" disabled={result === ''}>
            Give
          </button>
        </form>
      )}
    </details>
  );
}

/** As the model wrote it, if it is no JSON. */
function indented(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

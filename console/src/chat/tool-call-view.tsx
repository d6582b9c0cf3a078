/** A tool that the model calls. The page runs none: the user may give the result. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { ToolCall } from '../../../src/protocol/generate.ts';
import type { Conversation } from './conversation.ts';
import { giveResult } from './conversations.ts';

interface Props {
  readonly conversation: Conversation;
  readonly call: ToolCall;
  /** True while the call may still grow. */
  readonly isRunning: boolean;
}

export function ToolCallView({ conversation: { id, turns }, call, isRunning }: Props): JSX.Element {
  const [result, setResult] = useState('');
  const isAnswered = turns.some((turn) => turn.role === 'tool' && turn.callId === call.id);
  const submit = (event: Event): void => {
    event.preventDefault();
    giveResult(id, call.id, result);
  };
  return (
    <details class="tool-call" open={!isRunning && !isAnswered}>
      <summary>
        Calls <code>{call.name}</code>
      </summary>
      <pre tabIndex={0} role="region" aria-label={`Arguments of ${call.name}`}>
        {indented(call.arguments)}
      </pre>
      {!isRunning && !isAnswered && (
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

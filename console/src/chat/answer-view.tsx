/** One answer: thinking, text, tool calls, and what it took. */
import type { JSX } from 'preact';
import type { Timings } from '../../../src/protocol/generate.ts';
import { CopyButton } from '../parts/copy-button.tsx';
import { count, duration, rate, modelName } from '../parts/format.ts';
import { Icon } from '../parts/icon.tsx';
import { Markdown } from '../parts/markdown.tsx';
import type { AssistantTurn, Conversation } from './conversation.ts';
import { retry } from './conversations.ts';
import { ToolCallView } from './tool-call-view.tsx';

interface Props {
  readonly conversation: Conversation;
  readonly turn: AssistantTurn;
  /** True while some answer of the conversation runs. */
  readonly isBusy: boolean;
}

export function Answer({ conversation, turn, isBusy }: Props): JSX.Element {
  const { text, reasoning, toolCalls, state, failure } = turn;
  const isRunning = state === 'waiting' || state === 'streaming';
  return (
    <>
      <h3 class="unseen">Answer</h3>
      {reasoning !== '' && (
        <details class="thinking">
          <summary>{isRunning && text === '' ? 'Thinking…' : 'Thoughts'}</summary>
          <p>{reasoning}</p>
        </details>
      )}
      {text !== '' && <Markdown text={text} />}
      {toolCalls.map((call) => (
        <ToolCallView key={call.id} conversation={conversation} call={call} />
      ))}
      {isRunning && text === '' && reasoning === '' && <p class="pulse muted">{waitingFor(turn)}</p>}
      {failure !== null && (
        <div class="problem">
          <p>{failure.message}</p>
          {failure.hint !== undefined && <p class="muted">{failure.hint}</p>}
        </div>
      )}
      {!isRunning && (
        <div class="turn-actions">
          <CopyButton text={text} label="answer" />
          <button
            type="button"
            class="quiet small"
            aria-label="Answer again"
            disabled={isBusy}
            onClick={() => retry(conversation.id, turn.id)}
          >
            <Icon name="retry" />
          </button>
          <Facts turn={turn} />
        </div>
      )}
    </>
  );
}

function waitingFor({ state, answeredBy }: AssistantTurn): string {
  return state === 'waiting' ? 'Waiting for the model…' : `${answeredBy?.model ?? 'The model'} reads the prompt…`;
}

const ENDS: Readonly<Record<string, string>> = {
  length: 'cut at the token limit',
  content_filter: 'withheld by the provider',
  cancelled: 'cancelled',
};

function Facts({ turn: { state, answeredBy, usage, timings, reason } }: { readonly turn: AssistantTurn }): JSX.Element {
  const facts = [
    answeredBy === null ? null : modelName(answeredBy),
    state === 'stopped' ? 'stopped' : null,
    reason === null ? null : (ENDS[reason] ?? null),
    usage === null ? null : `${count(usage.input_tokens)} + ${count(usage.output_tokens)} tokens`,
    ...timingFacts(timings),
  ];
  return <span class="facts muted">{facts.filter((fact) => fact !== null).join(' · ')}</span>;
}

function timingFacts(timings: Timings | null): (string | null)[] {
  if (timings === null) return [];
  const { tokens_per_second, ttft_ms } = timings;
  return [
    tokens_per_second === null ? null : rate(tokens_per_second),
    ttft_ms === null ? null : `first after ${duration(Math.round(ttft_ms))}`,
  ];
}

/** The turns of a conversation. */
import { Component, type ComponentChildren, type JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Icon } from '../parts/icon.tsx';
import { CopyButton } from '../parts/copy-button.tsx';
import { Answer } from './answer-view.tsx';
import { isRunning, type Conversation, type UserTurn } from './conversation.ts';
import { resend } from './conversations.ts';
import { sourceOf } from './pictures.ts';

export function Turns({ conversation }: { readonly conversation: Conversation }): JSX.Element {
  const { id, turns } = conversation;
  const isBusy = isRunning(turns.at(-1));
  return (
    <ol class="turns" aria-label="Conversation">
      {turns.map((turn) => (
        <li key={turn.id} class={`turn ${turn.role}`}>
          <PlainIfBroken text={turn.text}>
            {turn.role === 'user' && <Question conversationId={id} turn={turn} isBusy={isBusy} />}
            {turn.role === 'assistant' && <Answer conversation={conversation} turn={turn} isBusy={isBusy} />}
            {turn.role === 'tool' && (
              <div class="tool-result">
                <span class="muted">Result</span>
                <pre>{turn.text}</pre>
              </div>
            )}
          </PlainIfBroken>
        </li>
      ))}
    </ol>
  );
}

/** Shows the text alone if its contents throw: without it, one such turn would leave the whole page blank. */
class PlainIfBroken extends Component<{ readonly text: string; readonly children: ComponentChildren }> {
  static override getDerivedStateFromError(): object {
    return { isBroken: true };
  }

  override state: { readonly isBroken?: boolean } = {};

  override render(): ComponentChildren {
    return this.state.isBroken === true ? <pre class="said">{this.props.text}</pre> : this.props.children;
  }
}

interface QuestionProps {
  readonly conversationId: string;
  readonly turn: UserTurn;
  readonly isBusy: boolean;
}

function Question({ conversationId, turn, isBusy }: QuestionProps): JSX.Element {
  const [isEditing, setEditing] = useState(false);
  if (isEditing) {
    const onDone = (text: string | null): void => {
      setEditing(false);
      if (text !== null) resend(conversationId, turn.id, text);
    };
    return <QuestionEditor text={turn.text} onDone={onDone} />;
  }
  return (
    <>
      <h3 class="unseen">You</h3>
      {turn.pictures.length > 0 && (
        <ul class="attached" aria-label="Pictures">
          {turn.pictures.map((picture, index) => (
            <li key={index}>
              <img src={sourceOf(picture)} alt={picture.name} />
            </li>
          ))}
        </ul>
      )}
      {turn.text !== '' && <p class="said">{turn.text}</p>}
      <div class="turn-actions">
        <CopyButton text={turn.text} label="message" />
        <button
          type="button"
          class="quiet small"
          aria-label="Edit and ask again"
          disabled={isBusy}
          onClick={() => setEditing(true)}
        >
          <Icon name="edit" />
        </button>
      </div>
    </>
  );
}

interface EditorProps {
  readonly text: string;
  /** null: nothing is changed. */
  onDone(text: string | null): void;
}

function QuestionEditor({ text: before, onDone }: EditorProps): JSX.Element {
  const [text, setText] = useState(before);
  const submit = (event: Event): void => {
    event.preventDefault();
    if (text.trim() !== '') onDone(text.trim());
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) submit(event);
    if (event.key === 'Escape') onDone(null);
  };
  return (
    <form class="question-editor" onSubmit={submit}>
      <textarea
        class="growing"
        aria-label="Edited message"
        ref={(field) => field?.focus()}
        value={text}
        onInput={({ currentTarget }) => setText(currentTarget.value)}
        onKeyDown={onKeyDown}
      />
      <div class="row end">
        <button type="button" onClick={() => onDone(null)}>
          Cancel
        </button>
        <button type="submit" class="primary" disabled={text.trim() === ''}>
          Ask again
        </button>
      </div>
    </form>
  );
}

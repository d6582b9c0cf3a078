import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Icon } from '../parts/icon.tsx';
import { Composer } from './composer.tsx';
import { current, startNew } from './conversations.ts';
import { History } from './history.tsx';
import { ModelPicker } from './model-picker.tsx';
import { OptionsView } from './options-view.tsx';
import { StickyScroll } from './sticky-scroll.tsx';
import { Turns } from './turns.tsx';

export function ChatView(): JSX.Element {
  const [dialog, setDialog] = useState<'options' | 'history' | null>(null);
  const conversation = current.value;
  const close = (): void => setDialog(null);
  return (
    <div class="chat">
      <header class="chat-head">
        <h1 class="unseen">Chat</h1>
        <ModelPicker conversation={conversation} />
        <button type="button" class="quiet round" aria-label="Options" onClick={() => setDialog('options')}>
          <Icon name="settings" />
        </button>
        <button type="button" class="quiet round" aria-label="Conversations" onClick={() => setDialog('history')}>
          <Icon name="history" />
        </button>
        <button type="button" class="quiet round" aria-label="New conversation" onClick={startNew}>
          <Icon name="plus" />
        </button>
      </header>
      <StickyScroll key={conversation.id}>
        {conversation.turns.length === 0 ? <Greeting /> : <Turns conversation={conversation} />}
      </StickyScroll>
      <Composer conversation={conversation} />
      {dialog === 'options' && <OptionsView conversation={conversation} onClose={close} />}
      {dialog === 'history' && <History onClose={close} />}
    </div>
  );
}

function Greeting(): JSX.Element {
  return (
    <div class="greeting">
      <h2>What shall we work on?</h2>
      <p class="muted">A model of this machine keeps every word here. A provider’s model sends them to the provider.</p>
    </div>
  );
}

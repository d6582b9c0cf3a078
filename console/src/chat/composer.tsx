/** Where the user writes. Enter sends, Shift+Enter breaks the line, Escape stops the answer. */
import type { JSX, TargetedEvent } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Icon } from '../parts/icon.tsx';
import type { Conversation, Picture } from './conversation.ts';
import { isRunning } from './conversation.ts';
import { send, stop } from './conversations.ts';
import { ACCEPTED, readPictures, sourceOf } from './pictures.ts';

export function Composer({ conversation }: { readonly conversation: Conversation }): JSX.Element {
  const { id, turns } = conversation;
  const isBusy = isRunning(turns.at(-1));
  const { text, setText, pictures, setPictures, problems, attach, clear } = useDraft();
  const isEmpty = text.trim() === '' && pictures.length === 0;
  const field = useRef<HTMLTextAreaElement>(null);
  // Before the next key can be pressed: it would act on the page.
  useLayoutEffect(() => field.current?.focus({ preventScroll: true }), [id]);

  const submit = (event?: Event): void => {
    event?.preventDefault();
    if (isEmpty || isBusy) return;
    send(id, text.trim(), pictures);
    clear();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    // Enter also ends the composition of a character.
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) submit(event);
    if (event.key === 'Escape' && isBusy) stop(id);
  };
  const onPasteOrDrop = (event: Event, data: DataTransfer | null): void => {
    const files = data?.files ?? [];
    if (files.length === 0) return;
    event.preventDefault();
    void attach(files);
  };
  return (
    <form class="composer" onSubmit={submit} onDrop={(event) => onPasteOrDrop(event, event.dataTransfer)}>
      {problems.length > 0 && (
        <p class="problem" role="alert">
          {problems.join(' ')}
        </p>
      )}
      <Attached pictures={pictures} onRemove={(gone) => setPictures(pictures.filter((each) => each !== gone))} />
      <textarea
        ref={field}
        class="growing"
        rows={1}
        aria-label="Message"
        placeholder="Ask anything"
        data-focus="main"
        value={text}
        onInput={({ currentTarget }) => setText(currentTarget.value)}
        onKeyDown={onKeyDown}
        onPaste={(event) => onPasteOrDrop(event, event.clipboardData)}
      />
      <div class="composer-row">
        <AttachButton onFiles={(files) => void attach(files)} />
        <span class="muted hint">Enter sends, Shift + Enter breaks the line</span>
        {isBusy ? <StopButton id={id} /> : <SendButton isEmpty={isEmpty} />}
      </div>
    </form>
  );
}

/** What the user has written and not sent. */
function useDraft() {
  const [text, setText] = useState('');
  const [pictures, setPictures] = useState<readonly Picture[]>([]);
  const [problems, setProblems] = useState<readonly string[]>([]);
  const attach = async (files: Iterable<File>): Promise<void> => {
    const read = await readPictures(files);
    setPictures((before) => [...before, ...read.pictures]);
    setProblems(read.problems);
  };
  const clear = (): void => {
    setText('');
    setPictures([]);
    setProblems([]);
  };
  return { text, setText, pictures, setPictures, problems, attach, clear };
}

function StopButton({ id }: { readonly id: string }): JSX.Element {
  return (
    <button type="button" class="round" aria-label="Stop the answer" onClick={() => stop(id)}>
      <Icon name="stop" />
    </button>
  );
}

function SendButton({ isEmpty }: { readonly isEmpty: boolean }): JSX.Element {
  return (
    <button type="submit" class="primary round" aria-label="Send" disabled={isEmpty}>
      <Icon name="send" />
    </button>
  );
}

interface AttachedProps {
  readonly pictures: readonly Picture[];
  onRemove(picture: Picture): void;
}

function Attached({ pictures, onRemove }: AttachedProps): JSX.Element | null {
  if (pictures.length === 0) return null;
  return (
    <ul class="attached" aria-label="Attached pictures">
      {pictures.map((picture, index) => (
        <li key={index}>
          <img src={sourceOf(picture)} alt={picture.name} />
          <button
            type="button"
            class="small round"
            aria-label={`Remove ${picture.name}`}
            onClick={() => onRemove(picture)}
          >
            <Icon name="close" />
          </button>
        </li>
      ))}
    </ul>
  );
}

function AttachButton({ onFiles }: { onFiles(files: Iterable<File>): void }): JSX.Element {
  const input = useRef<HTMLInputElement>(null);
  const onChange = ({ currentTarget }: TargetedEvent<HTMLInputElement>): void => {
    onFiles([...(currentTarget.files ?? [])]);
    currentTarget.value = '';
  };
  return (
    <>
      <button type="button" class="quiet round" aria-label="Attach pictures" onClick={() => input.current?.click()}>
        <Icon name="image" />
      </button>
      <input ref={input} type="file" accept={ACCEPTED} multiple hidden onChange={onChange} />
    </>
  );
}

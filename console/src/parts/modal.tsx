/** A dialog over the page; the browser keeps the focus in it, gives it back afterwards, and closes it on Escape. */
import type { ComponentChildren, JSX } from 'preact';
import { useId, useLayoutEffect, useRef } from 'preact/hooks';
import { Icon } from './icon.tsx';

interface Props {
  readonly title: string;
  /** null: it cannot be closed. */
  readonly onClose: (() => void) | null;
  readonly children: ComponentChildren;
}

export function Modal({ title, onClose, children }: Props): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useLayoutEffect(() => {
    const shown = dialog.current;
    shown?.showModal();
    // One that is removed while it is open takes the focus with it.
    return () => shown?.close();
  }, []);
  // Not `cancel`: browsers may close a dialog without asking, as on a second Escape.
  const closed = (): void => {
    // The event of a dialog that has been removed comes after it.
    if (dialog.current === null) return;
    if (onClose === null) dialog.current.showModal();
    else onClose();
  };
  return (
    <dialog ref={dialog} aria-labelledby={id} onClose={closed}>
      <header class="modal-head">
        <h2 id={id}>{title}</h2>
        {onClose !== null && (
          <button type="button" class="quiet small" aria-label="Close" onClick={onClose}>
            <Icon name="close" />
          </button>
        )}
      </header>
      {children}
    </dialog>
  );
}

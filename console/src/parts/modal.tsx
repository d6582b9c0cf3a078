/** A dialog over the page; the browser keeps the focus in it, and Escape closes it. */
import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';
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
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  const cancel = (event: Event): void => {
    event.preventDefault();
    onClose?.();
  };
  return (
    <dialog ref={dialog} aria-labelledby={id} onCancel={cancel}>
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

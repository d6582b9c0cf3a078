/** The live region of the page: what screen readers say without being asked. */
import { signal } from '@preact/signals';
import type { JSX } from 'preact';

const said = signal('');

/** Has a text read out when the reader is silent. The same text twice is read twice. */
export function announce(text: string): void {
  // A region whose text does not change is not read again; the space is not heard.
  said.value = text === said.value ? `${text}\u00a0` : text;
}

export function Announcer(): JSX.Element {
  return (
    <div class="unseen" role="status" aria-live="polite">
      {said.value}
    </div>
  );
}

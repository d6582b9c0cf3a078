/** One thing that is checked: its state, what was found, and what mends it. */
import type { ComponentChildren, JSX } from 'preact';

interface Props {
  readonly name: string;
  readonly status: 'ok' | 'warn' | 'fail' | 'skip';
  /** Shown instead of the status. */
  readonly word?: string;
  readonly detail: string | null;
  /** What to do. */
  readonly hint?: string | null;
  /** A remark at the end of the line. */
  readonly children?: ComponentChildren;
}

export function Check({ name, status, word = status, detail, hint = null, children }: Props): JSX.Element {
  return (
    <li class="check-line">
      <span class={`badge ${status}`}>{word}</span>
      <div>
        <h3>{name}</h3>
        {detail !== null && detail !== '' && <p>{detail}</p>}
        {hint !== null && <p class="mend">{hint}</p>}
      </div>
      <span class="muted figures">{children}</span>
    </li>
  );
}

/** An error where it happened: what happened, then what to do. */
import type { ComponentChildren, JSX } from 'preact';
import type { ApiError } from '../api/api-error.ts';
import { sentence } from './format.ts';

interface Props {
  readonly error: ApiError;
  /** A button that mends it. */
  readonly children?: ComponentChildren;
}

export function Problem({ error, children }: Props): JSX.Element {
  return (
    <div class="problem" role="alert">
      <p>{sentence(error.message)}</p>
      {error.hint !== null && <p class="muted">{sentence(error.hint)}</p>}
      {children}
    </div>
  );
}

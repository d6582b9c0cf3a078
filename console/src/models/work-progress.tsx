/** Work on models: how far it is, with a button that ends it, and what came of it. */
import type { JSX } from 'preact';
import { progressLine, progressValue } from '../parts/byte-figures.ts';
import { Problem } from '../parts/problem.tsx';
import { cancel, dismiss, type Work } from './works.ts';

export function WorkProgress({ work }: { readonly work: Work }): JSX.Element {
  const { title, state, phase, result, error, totalBytes } = work;
  const isRunning = state === 'running';
  const facts = [phase, totalBytes === 0 ? '' : progressLine(work)].filter((fact) => fact !== '');
  return (
    <div class="work">
      {isRunning && <progress aria-label={title} {...progressValue(work)} />}
      <div class="row spread">
        <p class="muted figures grow">{isRunning ? [title, ...facts].join(' · ') : `${title}: ${result}`}</p>
        {isRunning ? (
          <button type="button" class="small" aria-label={`Cancel: ${title}`} onClick={() => cancel(title)}>
            Cancel
          </button>
        ) : (
          <button type="button" class="quiet small" aria-label={`Dismiss: ${title}`} onClick={() => dismiss(title)}>
            Dismiss
          </button>
        )}
      </div>
      {error !== null && <Problem error={error} />}
    </div>
  );
}

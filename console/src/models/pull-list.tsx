import type { JSX } from 'preact';
import { amountOf, progressLine, progressValue } from '../parts/byte-figures.ts';
import { Problem } from '../parts/problem.tsx';
import { dismiss, pull, pulls, stopPull, type Pull } from './pulls.ts';

export function PullList(): JSX.Element | null {
  if (pulls.value.length === 0) return null;
  return (
    <ul class="cards pulls" aria-label="Pulls">
      {pulls.value.map((each) => (
        <li key={each.model} class="card">
          <PullCard pulling={each} />
        </li>
      ))}
    </ul>
  );
}

function PullCard({ pulling }: { readonly pulling: Pull }): JSX.Element {
  const { model, state, error } = pulling;
  const isRunning = state === 'resolving' || state === 'running' || state === 'waiting';
  return (
    <>
      <div class="card-head">
        <h3>{model}</h3>
        {isRunning ? (
          <button type="button" onClick={() => stopPull(model)}>
            Stop
          </button>
        ) : (
          <span class="row">
            {state !== 'done' && (
              <button type="button" onClick={() => void pull(model)}>
                Go on
              </button>
            )}
            <button type="button" class="quiet" onClick={() => dismiss(model)}>
              Dismiss
            </button>
          </span>
        )}
      </div>
      {isRunning && <progress aria-label={`Pull of ${model}`} {...progressValue(pulling)} />}
      <p class="muted figures">{described(pulling)}</p>
      {error !== null && <Problem error={error} />}
    </>
  );
}

function described(pulling: Pull): string {
  const { state, totalBytes, reason } = pulling;
  const amount = amountOf(pulling);
  switch (state) {
    case 'resolving':
      return 'Asking the hub…';
    case 'waiting':
      return `${amount} · waits: ${reason}`;
    case 'running':
      return progressLine(pulling);
    case 'done':
      return 'Installed';
    case 'stopped':
      return totalBytes === 0 ? 'Stopped' : `Stopped at ${amount}; what is there is kept`;
    case 'failed':
      return totalBytes === 0 ? 'Failed' : `Failed at ${amount}; what is there is kept`;
  }
}

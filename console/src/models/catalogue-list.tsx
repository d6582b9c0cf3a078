/** Models that are known to be good, and whether this machine can run them. */
import type { JSX } from 'preact';
import type { CatalogueRecord } from './catalogue.ts';
import { bytes, count } from '../parts/format.ts';
import { pull, pulls } from './pulls.ts';

export function CatalogueList({ models }: { readonly models: readonly CatalogueRecord[] }): JSX.Element {
  return (
    <ul class="cards">
      {models.map((each) => (
        <li key={each.name} class={`card ${each.fits ? '' : 'unfit'}`}>
          <div class="card-head">
            <h3>{each.name}</h3>
            <span class={`badge ${each.fits ? 'ok' : 'warn'}`}>{each.fits ? 'fits' : 'does not fit'}</span>
          </div>
          <p class="muted figures">
            {[bytes(each.bytes), each.context_length === undefined ? null : `context ${count(each.context_length)}`]
              .filter((fact) => fact !== null)
              .join(' · ')}
          </p>
          {each.title !== undefined && <p>{each.title}</p>}
          {each.why !== undefined && <p class="muted">{each.why}</p>}
          <div class="row actions">
            {each.installed ? (
              <span class="muted">Installed</span>
            ) : (
              <button
                type="button"
                aria-label={`Pull ${each.name}`}
                disabled={pulls.value.some(({ model, state }) => model === each.name && state === 'running')}
                onClick={() => void pull(each.name)}
              >
                Pull
              </button>
            )}
          </div>
        </li>
      ))}
    </ul>
  );
}

/** Models that are known to be good, and whether this machine can run them. */
import type { JSX } from 'preact';
import type { CatalogueModel } from '../../../src/protocol/console.ts';
import { bytes, count, factLine, sentence } from '../parts/format.ts';
import { pull, pulls } from './pulls.ts';

export function CatalogueList({ models }: { readonly models: readonly CatalogueModel[] }): JSX.Element {
  return (
    <ul class="cards">
      {models.map((each) => (
        <li key={each.name} class={`card ${each.fits ? '' : 'unfit'}`}>
          <div class="card-head">
            <h3>{each.name}</h3>
            <span class={`badge ${each.fits ? 'ok' : 'warn'}`}>{each.fits ? 'fits' : 'does not fit'}</span>
          </div>
          <p class="muted figures">{factsOf(each)}</p>
          <p>{sentence(each.good_at)}</p>
          {each.why !== undefined && <p class="muted">{sentence(each.why)}</p>}
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

function factsOf({ parameters_billions, quantization, bytes: size, context_length, license }: CatalogueModel): string {
  return factLine([
    `${parameters_billions}B parameters`,
    quantization,
    bytes(size),
    `context ${count(context_length)}`,
    license,
  ]);
}

import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { CatalogueModel } from '../../../src/protocol/console.ts';
import type { ModelRecord } from '../../../src/protocol/records.ts';
import { HTTP_ROUTES } from '../../../src/protocol/routes.ts';
import { Problem } from '../parts/problem.tsx';
import { useAnswer } from '../parts/use-answer.ts';
import { health } from '../state/connection.ts';
import { CatalogueList } from './catalogue-list.tsx';
import { ImportForm } from './import-form.tsx';
import { installedChanges } from './installed.ts';
import { ModelCard } from './model-card.tsx';
import { PullList } from './pull-list.tsx';
import { pull } from './pulls.ts';
import { WorkProgress } from './work-progress.tsx';
import { works } from './works.ts';

export function ModelsView(): JSX.Element {
  const installed = useAnswer<{ readonly models: readonly ModelRecord[] }>(HTTP_ROUTES.runtimeModels);
  const catalogue = useAnswer<{ readonly models: readonly CatalogueModel[] }>(HTTP_ROUTES.runtimeCatalogue);
  // Also loads, unloads and crashes that this page has not caused.
  const states = (health.value?.models ?? []).map(({ id, state, pid }) => `${id} ${state} ${String(pid)}`).join('\n');
  const changes = installedChanges.value;
  const refresh = async (): Promise<void> => {
    await Promise.all([installed.refresh(), catalogue.refresh()]);
  };
  useEffect(() => void installed.refresh(), [states]);
  useEffect(() => void refresh(), [changes]);

  return (
    <div class="page">
      <Head />
      <PullForm />
      <PullList />
      <Imports />
      <h2>Installed</h2>
      {installed.error !== null && <Problem error={installed.error} />}
      <ul class="cards">
        {installed.answer?.models.map((model) => (
          <ModelCard key={model.id} model={model} onChange={refresh} />
        ))}
      </ul>
      <h2>Catalogue</h2>
      {catalogue.error !== null && <Problem error={catalogue.error} />}
      {catalogue.answer !== null && <CatalogueList models={catalogue.answer.models} />}
    </div>
  );
}

function Head(): JSX.Element {
  const [isImporting, setImporting] = useState(false);
  return (
    <div class="row spread">
      <h1>Models</h1>
      <button type="button" onClick={() => setImporting(true)}>
        Import…
      </button>
      {isImporting && <ImportForm onClose={() => setImporting(false)} />}
    </div>
  );
}

function Imports(): JSX.Element | null {
  const imports = works.value.filter(({ model }) => model === null);
  if (imports.length === 0) return null;
  return (
    <ul class="cards pulls" aria-label="Imports">
      {imports.map((work) => (
        <li key={work.title} class="card">
          <WorkProgress work={work} />
        </li>
      ))}
    </ul>
  );
}

function PullForm(): JSX.Element {
  const [name, setName] = useState('');
  const submit = (event: Event): void => {
    event.preventDefault();
    if (name.trim() === '') return;
    void pull(name.trim());
    setName('');
  };
  return (
    <form class="row pull-form" onSubmit={submit}>
      <input
        aria-label="Model to pull"
        placeholder="hf:owner/repository, ollama:name, a name of the catalogue, or an https URL"
        data-focus="main"
        spellcheck={false}
        autocapitalize="off"
        value={name}
        onInput={({ currentTarget }) => setName(currentTarget.value)}
      />
      <button type="submit" class="primary" disabled={name.trim() === ''}>
        Pull
      </button>
    </form>
  );
}

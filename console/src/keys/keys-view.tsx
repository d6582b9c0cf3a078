import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { ShownKey } from '../../../src/protocol/keys.ts';
import { HTTP_ROUTES } from '../../../src/protocol/routes.ts';
import { ApiError } from '../api/api-error.ts';
import { ask } from '../api/request.ts';
import { announce } from '../parts/announcer.tsx';
import { count, moment } from '../parts/format.ts';
import { Problem } from '../parts/problem.tsx';
import { useAnswer } from '../parts/use-answer.ts';
import { KeyForm } from './key-form.tsx';

export function KeysView(): JSX.Element {
  const { answer, error, refresh } = useAnswer<{ readonly keys: readonly ShownKey[] }>(HTTP_ROUTES.runtimeKeys);
  const [isAdding, setAdding] = useState(false);
  const keys = answer?.keys ?? [];
  return (
    <div class="page">
      <div class="row spread">
        <h1>Keys</h1>
        <button type="button" class="primary" data-focus="main" onClick={() => setAdding(true)}>
          Add a key
        </button>
      </div>
      <p class="muted">
        Programs of other machines need a key. Once there is one, programs of this machine need one too.
      </p>
      {error !== null && <Problem error={error} />}
      {answer !== null && keys.length === 0 && <p>There is no key yet.</p>}
      <ul class="cards">
        {keys.map((each) => (
          <KeyCard key={each.name} record={each} onChange={refresh} />
        ))}
      </ul>
      {isAdding && <KeyForm onAdded={refresh} onClose={() => setAdding(false)} />}
    </div>
  );
}

function KeyCard({ record, onChange }: { readonly record: ShownKey; onChange(): Promise<void> }): JSX.Element {
  const { name, scope } = record;
  const [isSure, setSure] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const remove = async (): Promise<void> => {
    try {
      await ask(HTTP_ROUTES.runtimeKeysRemove, { body: { name } });
      announce(`The key ${name} is removed`);
      await onChange();
    } catch (thrown) {
      setError(ApiError.from(thrown));
    }
  };
  return (
    <li class="card">
      <div class="card-head">
        <h2>{name}</h2>
        <span class="badge">{scope}</span>
      </div>
      <p class="muted figures">{described(record)}</p>
      {error !== null && <Problem error={error} />}
      <div class="row actions">
        <button
          type="button"
          class={isSure ? 'danger' : 'quiet'}
          aria-label={isSure ? `Really remove ${name}` : `Remove ${name}`}
          onBlur={() => setSure(false)}
          onClick={() => (isSure ? void remove() : setSure(true))}
        >
          {isSure ? 'Really remove' : 'Remove'}
        </button>
      </div>
    </li>
  );
}

function described({ models, tokens_per_day, tokens_per_month, expires_at, created_at }: ShownKey): string {
  const facts = [
    models === null ? 'all models' : models.join(', '),
    tokens_per_day === null ? null : `${count(tokens_per_day)} tokens a day`,
    tokens_per_month === null ? null : `${count(tokens_per_month)} tokens a month`,
    `made ${moment(created_at)}`,
    expires_at === null ? null : `until ${moment(expires_at)}`,
  ];
  return facts.filter((fact) => fact !== null).join(' · ');
}

/** Lists what Ollama, LM Studio and the hub's cache have on the machine of svc, and registers what is chosen. */
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import {
  PROGRAM_TITLES,
  type ImportedModel,
  type ImportEvent,
  type ImportRecord,
} from '../../../src/protocol/model/import.ts';
import { HTTP_ROUTES, type ErrorEvent } from '../../../src/protocol/routes.ts';
import { ApiError } from '../api/api-error.ts';
import { askLines } from '../api/request.ts';
import { bytes, factLine, plural, sentence } from '../parts/format.ts';
import { Modal } from '../parts/modal.tsx';
import { Problem } from '../parts/problem.tsx';
import { importModels } from './works.ts';

export function ImportForm({ onClose }: { onClose(): void }): JSX.Element {
  const [found, setFound] = useState<ImportRecord | null>(null);
  const [place, setPlace] = useState('');
  const [error, setError] = useState<ApiError | null>(null);
  useEffect(() => {
    const gone = new AbortController();
    void look(setPlace, gone.signal).then(setFound, (thrown: unknown) => {
      const failure = ApiError.from(thrown);
      if (!failure.isCancelled) setError(failure);
    });
    return () => gone.abort();
  }, []);
  return (
    <Modal title="Import models" onClose={onClose}>
      <div class="fields">
        <p class="muted">
          Registers models of other programs where they are. Nothing is copied, and nothing of theirs is written.
        </p>
        {error !== null && <Problem error={error} />}
        {error === null && found === null && (
          <p role="status" class="muted breaking">
            {place === '' ? 'Looking…' : `Looking in ${place}`}
          </p>
        )}
        {found !== null && <Choice found={found} onClose={onClose} />}
      </div>
    </Modal>
  );
}

/** Resolves with what the other programs have. Throws ApiError. */
async function look(onPlace: (path: string) => void, signal: AbortSignal): Promise<ImportRecord> {
  for await (const event of askLines<ImportEvent | ErrorEvent>(HTTP_ROUTES.runtimeImport, { body: {}, signal })) {
    if (event.type === 'looking') onPlace(event.path);
    if (event.type === 'finished') return event;
  }
  throw ApiError.cutOff();
}

function Choice({ found, onClose }: { readonly found: ImportRecord; onClose(): void }): JSX.Element {
  const { models, refused, folders } = found;
  const possible = models.filter(({ state }) => state === 'planned').map(({ source }) => source);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set(possible));
  const toggle = (source: string): void => {
    const next = new Set(chosen);
    if (!next.delete(source)) next.add(source);
    setChosen(next);
  };
  const submit = (event: Event): void => {
    event.preventDefault();
    void importModels([...chosen]);
    onClose();
  };
  return (
    <form class="fields" onSubmit={submit}>
      {models.length === 0 && (
        <>
          <p role="status">No models were found. svc looked in:</p>
          <ul class="plain breaking muted">
            {folders.map(({ path }) => (
              <li key={path}>{path}</li>
            ))}
          </ul>
        </>
      )}
      {models.length > 0 && (
        <ul class="plain" aria-label="Models found">
          {models.map((model, index) => (
            <li key={`${model.source} ${index}`}>
              <Found model={model} isChosen={chosen.has(model.source)} onToggle={() => toggle(model.source)} />
            </li>
          ))}
        </ul>
      )}
      {refused.length > 0 && (
        <details>
          <summary>{`${plural(refused.length, 'file')} cannot be used`}</summary>
          <ul class="plain breaking muted">
            {refused.map(({ path, reason }, index) => (
              <li key={`${path} ${index}`}>{sentence(`${path} ${reason}`)}</li>
            ))}
          </ul>
        </details>
      )}
      <div class="row end">
        <button type="submit" class="primary" disabled={chosen.size === 0}>
          {`Import ${plural(chosen.size, 'model')}`}
        </button>
      </div>
    </form>
  );
}

interface FoundProps {
  readonly model: ImportedModel;
  readonly isChosen: boolean;
  onToggle(): void;
}

function Found({ model, isChosen, onToggle }: FoundProps): JSX.Element {
  const { id, state, same_as: sameAs, program, size_bytes: size } = model;
  const isNew = state === 'planned';
  const facts = factLine([
    PROGRAM_TITLES[program],
    bytes(size),
    isNew ? (sameAs === null ? null : `as a name of ${sameAs}`) : `installed${sameAs === null ? '' : ` as ${sameAs}`}`,
  ]);
  return (
    <label class="check">
      <input type="checkbox" disabled={!isNew} checked={isNew && isChosen} onChange={onToggle} />
      <span class="grow breaking">
        {id} <span class="muted figures">{facts}</span>
      </span>
    </label>
  );
}

/** Makes a key, and shows it this once. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { KeyScope, NewKey } from '../../../src/protocol/keys.ts';
import { HTTP_ROUTES } from '../../../src/protocol/routes.ts';
import { ApiError } from '../api/api-error.ts';
import { ask } from '../api/request.ts';
import { CopyButton } from '../parts/copy-button.tsx';
import { Modal } from '../parts/modal.tsx';
import { Problem } from '../parts/problem.tsx';

const SCOPES: readonly { readonly value: KeyScope; readonly label: string }[] = [
  { value: 'local', label: 'local: models of this machine' },
  { value: 'inference', label: 'inference: providers too, which may cost money' },
  { value: 'admin', label: 'admin: everything' },
];

interface Props {
  onAdded(): Promise<void>;
  onClose(): void;
}

export function KeyForm({ onAdded, onClose }: Props): JSX.Element {
  const [name, setName] = useState('');
  const [scope, setScope] = useState<KeyScope>('inference');
  const [made, setMade] = useState<string | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    try {
      const { key } = await ask<NewKey>(HTTP_ROUTES.runtimeKeys, { body: { name: name.trim(), scope } });
      setMade(key);
      setError(null);
      await onAdded();
    } catch (thrown) {
      setError(ApiError.from(thrown));
    }
  };
  if (made !== null) return <MadeKey name={name.trim()} text={made} onClose={onClose} />;
  return (
    <Modal title="Add a key" onClose={onClose}>
      <form class="fields" onSubmit={(event) => void submit(event)}>
        <label>
          Name
          <input
            autocomplete="off"
            spellcheck={false}
            placeholder="The program or person that uses it"
            value={name}
            onInput={({ currentTarget }) => setName(currentTarget.value)}
          />
        </label>
        <label>
          Scope
          <select value={scope} onChange={({ currentTarget }) => setScope(currentTarget.value as KeyScope)}>
            {SCOPES.map(({ value, label }) => (
              <option key={value} value={value}>
                {label}
              </option>
            ))}
          </select>
        </label>
        <p class="muted">
          Limits of models, tokens and time are options of <code>svc key add</code>.
        </p>
        {error !== null && <Problem error={error} />}
        <div class="row end">
          <button type="submit" class="primary" disabled={name.trim() === ''}>
            Make the key
          </button>
        </div>
      </form>
    </Modal>
  );
}

interface MadeProps {
  readonly name: string;
  readonly text: string;
  onClose(): void;
}

function MadeKey({ name, text, onClose }: MadeProps): JSX.Element {
  return (
    <Modal title={`Key ${name}`} onClose={onClose}>
      <p>Copy it now: svc keeps only its digest and cannot show it again.</p>
      <p class="secret">
        <code>{text}</code>
        <CopyButton text={text} label="key" />
      </p>
      <div class="row end">
        <button type="button" class="primary" onClick={onClose}>
          Done
        </button>
      </div>
    </Modal>
  );
}

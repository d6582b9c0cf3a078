/** Asks for a key when the daemon wants one, and uses the token of a one-time link. */
import type { JSX } from 'preact';
import { HTTP_ROUTES } from '../../src/protocol/routes.ts';
import { useState } from 'preact/hooks';
import { signal } from '@preact/signals';
import { ApiError } from './api/api-error.ts';
import { ask } from './api/request.ts';
import { Icon } from './parts/icon.tsx';
import { Modal } from './parts/modal.tsx';
import { Problem } from './parts/problem.tsx';
import { key, keyWanted, takeLinkToken, useKey } from './state/session.ts';

/** What a header can carry; every key of svc is such a text. */
const KEY = /^[\x21-\x7e]+$/;
const NO_KEY = new ApiError(
  'INVALID_REQUEST',
  'the text has a space or a character that no API key has',
  'Copy the key again, and nothing else.',
);

const linkError = signal<ApiError | null>(null);

/** Exchanges the token in the address, if there is one, for a key of this session. */
export async function signInByLink(): Promise<void> {
  const token = takeLinkToken();
  if (token === null) return;
  try {
    const record = await ask<{ readonly key: string }>(HTTP_ROUTES.signIn, { body: { token } });
    linkError.value = null;
    useKey(record.key);
  } catch (thrown) {
    linkError.value = ApiError.from(thrown);
  }
}

/** Over the page while a key is wanted. */
export function SignIn(): JSX.Element | null {
  const [text, setText] = useState('');
  const [refused, setRefused] = useState<ApiError | null>(null);
  const wanted = linkError.value ?? keyWanted.value;
  if (wanted === null) return null;
  const problem = refused ?? (linkError.value !== null || key.value !== null ? wanted : null);
  const submit = (event: Event): void => {
    event.preventDefault();
    if (text.trim() === '') return;
    if (!KEY.test(text.trim())) {
      setRefused(NO_KEY);
      return;
    }
    linkError.value = null;
    useKey(text.trim());
    setText('');
  };
  // A link that failed matters only where a key is needed.
  const isOptional = keyWanted.value === null;
  return (
    <Modal title="Sign in" onClose={isOptional ? () => (linkError.value = null) : null}>
      <form class="fields" onSubmit={submit}>
        {problem !== null ? <Problem error={problem} /> : <p>This svc answers only with an API key.</p>}
        <label>
          API key
          <input
            type="password"
            autocomplete="off"
            spellcheck={false}
            value={text}
            onInput={({ currentTarget }) => {
              setText(currentTarget.value);
              setRefused(null);
            }}
          />
        </label>
        <p class="muted">
          On the machine itself, <code>svc open</code> signs you in without a key, and <code>svc key add NAME</code>{' '}
          makes one. The key stays in this tab and ends with it.
        </p>
        <div class="row end">
          <button type="submit" class="primary" disabled={text.trim() === ''}>
            <Icon name="key" /> Sign in
          </button>
        </div>
      </form>
    </Modal>
  );
}

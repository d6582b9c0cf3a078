/** The other conversations of this page. */
import type { JSX } from 'preact';
import { Icon } from '../parts/icon.tsx';
import { Modal } from '../parts/modal.tsx';
import { titleOf } from './conversation.ts';
import { conversations, current, isKept, isStored, open, remove, removeAll } from './conversations.ts';

export function History({ onClose }: { onClose(): void }): JSX.Element {
  const choose = (id: string): void => {
    open(id);
    onClose();
  };
  return (
    <Modal title="Conversations" onClose={onClose}>
      <ul class="history">
        {conversations.value.map((each) => (
          <li key={each.id}>
            <button
              type="button"
              class="quiet grow"
              aria-current={each.id === current.value.id ? 'true' : undefined}
              onClick={() => choose(each.id)}
            >
              {titleOf(each)}
            </button>
            <button
              type="button"
              class="quiet small"
              aria-label={`Delete ${titleOf(each)}`}
              onClick={() => remove(each.id)}
            >
              <Icon name="trash" />
            </button>
          </li>
        ))}
      </ul>
      <label class="check">
        <input
          type="checkbox"
          checked={isKept.value}
          onChange={({ currentTarget }) => (isKept.value = currentTarget.checked)}
        />
        Keep conversations in this browser
      </label>
      <p class="muted">
        {isKept.value
          ? 'They stay in this browser, without their pictures, until you delete them.'
          : 'They end with this page. svc itself keeps none.'}
      </p>
      {!isStored.value && (
        <p class="problem" role="alert">
          The browser has no room for these conversations. Delete some to keep the others.
        </p>
      )}
      <div class="row end">
        <button type="button" class="danger" onClick={removeAll}>
          Delete all
        </button>
      </div>
    </Modal>
  );
}

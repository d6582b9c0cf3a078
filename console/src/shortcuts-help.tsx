import type { JSX } from 'preact';
import { Modal } from './parts/modal.tsx';
import { areOn, isHelpOpen, SHORTCUTS } from './state/shortcuts.ts';

export function ShortcutsHelp(): JSX.Element | null {
  if (!isHelpOpen.value) return null;
  return (
    <Modal title="Keyboard" onClose={() => (isHelpOpen.value = false)}>
      <dl class="shortcuts">
        {SHORTCUTS.map(({ key, does }) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
        <div>
          <dt>
            <kbd>Esc</kbd>
          </dt>
          <dd>Stop the answer, from the message field</dd>
        </div>
      </dl>
      <label class="check">
        <input
          type="checkbox"
          checked={areOn.value}
          onChange={({ currentTarget }) => (areOn.value = currentTarget.checked)}
        />
        Single keys are shortcuts
      </label>
    </Modal>
  );
}

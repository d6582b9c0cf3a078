/** Keys that work anywhere but in a field. They can be turned off, for those who dictate. */
import { signal } from '@preact/signals';
import { startNew } from '../chat/conversations.ts';
import { isBoolean, stored } from './stored.ts';
import { toggleTheme } from './theme.ts';
import { show, TITLES, VIEWS } from './view.ts';

export const areOn = stored('svc.shortcuts', true, isBoolean);
export const isHelpOpen = signal(false);

interface Shortcut {
  readonly key: string;
  readonly does: string;
  run(): void;
}

export const SHORTCUTS: readonly Shortcut[] = [
  ...VIEWS.map((view, index) => ({ key: String(index + 1), does: TITLES[view], run: () => show(view) })),
  {
    key: 'n',
    does: 'New conversation',
    run: () => {
      startNew();
      show('chat');
    },
  },
  { key: '/', does: 'To the main field of the view', run: focusMain },
  { key: 't', does: 'Light or dark', run: toggleTheme },
  { key: '?', does: 'These shortcuts', run: () => (isHelpOpen.value = true) },
];

export function listen(): void {
  addEventListener('keydown', (event) => {
    if (!areOn.value || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (document.querySelector('dialog[open]') !== null) return;
    const shortcut = SHORTCUTS.find(({ key }) => key === event.key);
    if (shortcut === undefined) return;
    event.preventDefault();
    shortcut.run();
  });
}

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement && (target.isContentEditable || /^(input|textarea|select)$/i.test(target.tagName))
  );
}

function focusMain(): void {
  document.querySelector<HTMLElement>('[data-focus="main"]')?.focus();
}

/** Light or dark: as the system, unless chosen otherwise. */
import { computed, effect, signal } from '@preact/signals';
import { stored } from './stored.ts';

export type Theme = 'light' | 'dark';
type Choice = Theme | 'system';

const isChoice = (value: unknown): value is Choice => value === 'light' || value === 'dark' || value === 'system';
const choice = stored<Choice>('svc.theme', 'system', isChoice);

const query = matchMedia('(prefers-color-scheme: dark)');
const system = signal<Theme>(query.matches ? 'dark' : 'light');
query.addEventListener('change', ({ matches }) => (system.value = matches ? 'dark' : 'light'));

export const theme = computed<Theme>(() => (choice.value === 'system' ? system.value : choice.value));
effect(() => {
  document.documentElement.dataset['theme'] = theme.value;
});

/** The other theme; the choice that the system has too is not kept, so that the page follows the system again. */
export function toggleTheme(): void {
  const next = theme.value === 'dark' ? 'light' : 'dark';
  choice.value = next === system.value ? 'system' : next;
}

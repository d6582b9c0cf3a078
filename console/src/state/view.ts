/** The view that the address names: `#/models`. */
import { batch, signal } from '@preact/signals';

export const VIEWS = ['chat', 'models', 'now', 'health', 'logs', 'usage', 'keys'] as const;
export type View = (typeof VIEWS)[number];

export const TITLES: Readonly<Record<View, string>> = {
  chat: 'Chat',
  models: 'Models',
  now: 'Now',
  health: 'Health',
  logs: 'Logs',
  usage: 'Usage',
  keys: 'Keys',
};

export const view = signal<View>(viewOf(location.hash));
/** What the address says after the name of the view, as `request=ID`. */
export const viewParameters = signal(parametersOf(location.hash));

addEventListener('hashchange', readAddress);

export function show(next: View, parameters: Readonly<Record<string, string>> = {}): void {
  const query = new URLSearchParams(parameters).toString();
  location.hash = `#/${next}${query === '' ? '' : `?${query}`}`;
  // The event comes later: a key pressed until then would act on the view that is left.
  readAddress();
}

function readAddress(): void {
  batch(() => {
    view.value = viewOf(location.hash);
    viewParameters.value = parametersOf(location.hash);
  });
}

function viewOf(hash: string): View {
  const name = /^#\/(\w+)/.exec(hash)?.[1];
  return VIEWS.find((each) => each === name) ?? 'chat';
}

function parametersOf(hash: string): URLSearchParams {
  return new URLSearchParams(hash.split('?')[1] ?? '');
}

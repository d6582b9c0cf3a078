/** Small drawings beside words; screen readers skip them. */
import type { JSX } from 'preact';

/** Paths on a grid of 24, drawn as lines. */
const PATHS = {
  chat: 'M4 5h16v11H9l-5 4z',
  models: 'M12 3l8 4.5v9L12 21l-8-4.5v-9zM4 7.5l8 4.5 8-4.5M12 12v9',
  now: 'M3 12h4l3-8 4 16 3-8h4',
  health: 'M12 20s-8-4.6-8-10.4A4.4 4.4 0 0112 7a4.4 4.4 0 018 2.6C20 15.4 12 20 12 20z',
  logs: 'M5 6h14M5 10h14M5 14h9M5 18h11',
  usage: 'M5 20V11M12 20V4M19 20v-6',
  keys: 'M15 9a4 4 0 11-8 0 4 4 0 018 0zM11 13v8M11 17h3M11 20h2',
  send: 'M12 19V5M6 11l6-6 6 6',
  stop: 'M7 7h10v10H7z',
  plus: 'M12 5v14M5 12h14',
  copy: 'M9 9h10v11H9zM5 15V4h10',
  check: 'M5 12.5l4.5 4.5L19 7.5',
  edit: 'M4 20l1-4L16 5l3 3L8 19z',
  retry: 'M19 12a7 7 0 11-2-4.9M19 4v4h-4',
  image: 'M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4M15.5 9.5h.01',
  close: 'M6 6l12 12M18 6L6 18',
  trash: 'M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13',
  sun: 'M12 8a4 4 0 100 8 4 4 0 000-8zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.4 1.4M17.6 17.6L19 19M5 19l1.4-1.4M17.6 6.4L19 5',
  moon: 'M20 14.5A8 8 0 019.5 4 8 8 0 1020 14.5z',
  settings: 'M4 7h10M18 7h2M4 17h2M10 17h10M16 5v4M8 15v4',
  keyboard: 'M3 6h18v12H3zM7 10h.01M11 10h.01M15 10h.01M7 14h10',
  key: 'M15 9a4 4 0 11-8 0 4 4 0 018 0zM11 13v8M11 17h3M11 20h2',
  down: 'M12 5v14M6 13l6 6 6-6',
  history: 'M4 12a8 8 0 108-8 8 8 0 00-6.5 3.3M5 4v4h4M12 8v4l3 2',
} as const;
export type IconName = keyof typeof PATHS;

export function Icon({ name }: { readonly name: IconName }): JSX.Element {
  return (
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}

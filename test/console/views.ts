/** The views of the console, and when each has shown what it reads. */
import type { Page } from 'playwright-core';

export const VIEWS = ['chat', 'models', 'now', 'health', 'logs', 'usage', 'keys'] as const;
export type View = (typeof VIEWS)[number];

/** A text that stands for what was read. */
const SIGNS: Readonly<Record<View, string>> = {
  chat: '.model-picker optgroup',
  models: '.card.model',
  now: '.plot canvas',
  health: '.check-line',
  logs: '.log-row',
  usage: '.page h1',
  keys: '.page h1',
};

/** Shows a view, and resolves when it shows what it has read. */
export async function settle(page: Page, view: View): Promise<void> {
  await page.evaluate((name) => (location.hash = `#/${name}`), view);
  await page.locator(SIGNS[view]).first().waitFor({ state: 'attached' });
}

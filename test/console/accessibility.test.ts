/** Each view in both themes and on a narrow screen: no violation that axe finds, no scrolling sideways, keyboard only. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { test as suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { AxeResults } from 'axe-core';
import type { Page } from 'playwright-core';
import { unless } from '../support/skip.ts';
import { waitFor } from '../support/wait.ts';
import { noBrowser, openConsole, type Console } from './browser.ts';
import { settle, VIEWS } from './views.ts';

const test = unless(noBrowser, suite);
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

let served: Console;

suite.before(async () => {
  if (noBrowser !== undefined) return;
  served = await openConsole({ models: { tiny: 'tiny-llama' } });
});
suite.after(async () => {
  if (noBrowser !== undefined) return;
  await served.close();
  assert.equal(served.problems, []);
});

/** Violations as one line each. */
async function violations(page: Page): Promise<string[]> {
  await page.evaluate(AXE);
  const { violations: found } = await page.evaluate(
    async () => await (globalThis as unknown as { axe: { run(): Promise<AxeResults> } }).axe.run(),
  );
  return found.map(
    ({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ html }) => html.slice(0, 200)).join(' | ')}`,
  );
}

for (const theme of ['light', 'dark'] as const) {
  test(`axe finds nothing in any view, ${theme}`, async () => {
    const page = await served.open('', { theme });
    const found: string[] = [];
    for (const view of VIEWS) {
      await settle(page, view);
      found.push(...(await violations(page)).map((each) => `${view}: ${each}`));
    }
    await page.close();
    assert.equal(found, []);
  });
}

test('axe finds nothing in the dialogs', async () => {
  const page = await served.open();
  const found: string[] = [];
  for (const name of ['Options', 'Conversations', 'Keyboard', 'Quantize tiny…', 'Import…']) {
    if (name === 'Quantize tiny…') await settle(page, 'models');
    await page.getByRole('button', { name, exact: true }).click();
    await page.getByRole('dialog').waitFor();
    found.push(...(await violations(page)).map((each) => `${name}: ${each}`));
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
  }
  await page.close();
  assert.equal(found, []);
});

/** Evaluated in the page: `a view` if `main` has the focus, else the label of the element that has it. */
const FOCUSED = `document.activeElement.matches('main') ? 'a view' : document.activeElement.getAttribute('aria-label')`;

test('a view has the focus as soon as it is drawn, before another key can be pressed', async () => {
  const page = await served.open();
  const atFirst = page.waitForEvent('console', (message) => message.text().startsWith('focus: '));
  await page.addInitScript(`
    new MutationObserver((_, observer) => {
      if (document.querySelector('textarea') === null) return;
      observer.disconnect();
      console.log('focus: ' + (${FOCUSED}));
    }).observe(document, { childList: true, subtree: true });`);
  await page.reload();
  assert.is((await atFirst).text(), 'focus: Message');

  const keys = [...VIEWS.map((_, index) => String(index + 1)), '1', '2', 'n'];
  const found: unknown[] = [];
  for (const key of keys) {
    await page.locator('main').focus();
    found.push(
      await page.evaluate(`(async () => {
        document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: '${key}', bubbles: true }));
        // The end of the task of the key: no frame is drawn, and no other key arrives, before it.
        for (let turns = 0; turns < 10; turns++) await null;
        return ${FOCUSED};
      })()`),
    );
  }
  await page.close();
  // The chat was shown already when its own key was pressed for the first time.
  const views = VIEWS.map(() => 'a view');
  assert.equal(found, [...views, 'Message', 'a view', 'Message']);
});

test('the focus returns to what has opened a dialog, however it is closed', async () => {
  const page = await served.open();
  const opener = page.getByRole('button', { name: 'Conversations' });
  const closings = [
    () => page.keyboard.press('Escape'),
    () => page.getByRole('button', { name: 'Close' }).click(),
    () => page.locator('.history button').first().click(),
  ];
  for (const close of closings) {
    await opener.press('Enter');
    await page.getByRole('dialog').waitFor();
    await close();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    assert.is(await page.evaluate(() => document.activeElement?.getAttribute('aria-label')), 'Conversations');
  }
  await page.close();
});

test('no view is wider than the screen, from 360 pixels to 4K', async () => {
  for (const [width, height] of [
    [360, 740],
    [1280, 800],
    [3840, 2160],
  ] as const) {
    const page = await served.open('', { width, height });
    for (const view of VIEWS) {
      await settle(page, view);
      const overflow = await page.evaluate(() => {
        const main = document.querySelector('main') as HTMLElement;
        return Math.max(document.documentElement.scrollWidth - innerWidth, main.scrollWidth - main.clientWidth);
      });
      assert.ok(overflow <= 0, `${view} at ${width} pixels is ${overflow} too wide`);
    }
    await page.close();
  }
});

test('every view, the theme and the help are reached by keyboard alone', async () => {
  const page = await served.open('#/models');
  await page.getByRole('heading', { name: 'Models', level: 1 }).waitFor();
  for (const [index, view] of VIEWS.entries()) {
    await page.locator('main').focus();
    await page.keyboard.press(String(index + 1));
    await waitFor(view, () => page.url().endsWith(`#/${view}`));
  }
  await page.locator('main').focus();
  const before = await page.locator('html').getAttribute('data-theme');
  await page.keyboard.press('t');
  assert.is.not(await page.locator('html').getAttribute('data-theme'), before);
  await page.keyboard.press('?');
  await page.getByRole('dialog', { name: 'Keyboard' }).waitFor();
  await page.keyboard.press('Escape');
  await page.keyboard.press('1');
  // In a field they are letters.
  await page.keyboard.type('4 times');
  assert.is(await page.getByRole('textbox', { name: 'Message' }).inputValue(), '4 times');
  assert.ok(page.url().endsWith('#/chat'));
  // What has the focus shows it.
  for (let steps = 0; steps < 12; steps++) {
    await page.keyboard.press('Tab');
    const outline = await page.evaluate(() => {
      const { outlineStyle, outlineWidth } = getComputedStyle(document.activeElement as Element);
      return { isBody: document.activeElement === document.body, outlineStyle, outlineWidth };
    });
    assert.ok(outline.isBody || (outline.outlineStyle !== 'none' && outline.outlineWidth !== '0px'), String(steps));
  }
  await page.close();
});

suite.run();

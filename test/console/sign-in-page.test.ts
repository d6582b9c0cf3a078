/** Who the console lets in, in a real browser: keys, and links of one use. */
import { join } from 'node:path';
import { test as suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { Page } from 'playwright-core';
import { addKey } from '../../src/home/key-file.ts';
import { unless } from '../support/skip.ts';
import { svc } from '../support/svc.ts';
import { noBrowser, openConsole, PATIENCE_MS, type Console } from './browser.ts';

const test = unless(noBrowser, suite);

let served: Console;
let page: Page;
let key: string;

suite.before(async () => {
  if (noBrowser !== undefined) return;
  served = await openConsole({
    prepare: async ({ dir }) => {
      ({ key } = await addKey(join(dir, 'data', 'keys.json'), 'reader', 'admin'));
    },
  });
});
suite.after(async () => {
  if (noBrowser !== undefined) return;
  await served.close();
  assert.equal(served.problems, []);
});
suite.before.each(async () => {
  if (noBrowser !== undefined) return;
  page = await served.open();
});
suite.after.each(async () => {
  if (noBrowser !== undefined) return;
  await page.close();
});

const dialog = (): ReturnType<Page['getByRole']> => page.getByRole('dialog', { name: 'Sign in' });

async function newLink(): Promise<string> {
  const { code, stdout, stderr } = await svc(['open', '--print'], { home: served.home });
  assert.is(code, 0, stderr);
  return stdout.trim();
}

test('a key is asked for; a wrong one is refused and a right one opens the page, for this tab only', async () => {
  await dialog().getByText('answers only with an API key').waitFor();
  await dialog().getByLabel('API key').fill('svc_wrong');
  await page.keyboard.press('Enter');
  await dialog().getByText('not a known one').waitFor();
  await dialog().getByLabel('API key').fill(key);
  await page.keyboard.press('Enter');
  await dialog().waitFor({ state: 'detached' });
  await page.getByText('ready').waitFor();
  await page.reload();
  await page.getByText('ready').waitFor();
  assert.is(await dialog().count(), 0);
  const kept = await page.evaluate(() => JSON.stringify(Object.entries(localStorage)) + document.cookie);
  assert.not.ok(kept.includes(key), 'the key is in the storage of the tab alone');
  await page.getByRole('button', { name: 'Sign out' }).click();
  await dialog().waitFor();
});

test('Escape leaves the sign-in open', async () => {
  await dialog().waitFor();
  // A browser does not ask the page before it closes a dialog in which nothing was done yet.
  for (let presses = 0; presses < 3; presses++) await page.keyboard.press('Escape');
  await dialog().getByLabel('API key').fill(key);
  await page.keyboard.press('Enter');
  await page.getByText('ready').waitFor();
});

test('a text that no header can carry is refused as a key, and the connection stays', async () => {
  await dialog().getByLabel('API key').fill(`${key}…`);
  await page.keyboard.press('Enter');
  await dialog().getByRole('alert').getByText('a character that no API key has', { exact: false }).waitFor();
  await dialog().getByLabel('API key').fill(key);
  assert.is(await dialog().getByRole('alert').count(), 0);
  await page.keyboard.press('Enter');
  await page.getByText('ready').waitFor();
});

test('a link signs in once, and leaves neither address nor history', async () => {
  const link = await newLink();
  await page.goto(link);
  // A reload before the answer would lose the session that the link was used for.
  await page.getByText('ready').waitFor();
  await page.reload();
  await page.getByText('ready').waitFor();
  assert.not.match(page.url(), /signin/);
  const other = await served.browser.newPage();
  other.setDefaultTimeout(PATIENCE_MS);
  await other.goto(link);
  await other.getByText('the link has been used', { exact: false }).waitFor();
  assert.not.match(other.url(), /signin/);
  await other.getByText('svc open', { exact: false }).first().waitFor();
  await other.close();
});

test('a link that is made up is refused, and another one signs the same tab in', async () => {
  await page.goto(`${served.url}/#signin=${'A'.repeat(43)}`);
  await dialog().getByRole('alert').waitFor();
  assert.match(await dialog().getByRole('alert').innerText(), /link .*\n.*svc open/is);
  await page.goto(await newLink());
  await dialog().waitFor({ state: 'detached' });
  await page.getByText('ready').waitFor();
});

suite.run();

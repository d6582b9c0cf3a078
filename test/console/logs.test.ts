/** Ten thousand log lines in a real browser: few are in the page, also while they are filtered; new ones follow. */
import { appendFileSync, writeFileSync } from 'node:fs';
import { test as suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { Page } from 'playwright-core';
import { unless } from '../support/skip.ts';
import { waitFor } from '../support/wait.ts';
import { noBrowser, openConsole, type Console } from './browser.ts';

const test = unless(noBrowser, suite);

const LINES = 10_000;
/** Rows in the page, however many lines there are: what keeps it fast. */
const MOST_ROWS = 200;

let served: Console;
let page: Page;

suite.before(async () => {
  if (noBrowser !== undefined) return;
  served = await openConsole();
  const { log_path } = await served.daemon.client.status();
  const lines = Array.from({ length: LINES }, (_, index) => line(`filler ${index}`, `req_${index % 100}`));
  writeFileSync(log_path, lines.join(''), { flag: 'a' });
  page = await served.open('#/logs');
});
suite.after(async () => {
  if (noBrowser !== undefined) return;
  await served.close();
  assert.equal(served.problems, []);
});

function line(msg: string, id: string, level = 'info'): string {
  return `${JSON.stringify({ level, time: new Date().toISOString(), msg, id })}\n`;
}

const counter = (text: string): ReturnType<Page['getByText']> => page.getByText(text, { exact: true });

async function assertFewRows(): Promise<void> {
  const rows = await page.locator('.log-row').count();
  assert.ok(rows > 10 && rows < MOST_ROWS, `${rows} rows`);
}

test('ten thousand lines are shown at their end, and fewer than two hundred are in the page', async () => {
  await counter('10,000 lines').waitFor();
  await page.locator('.log-row', { hasText: 'filler 9999' }).waitFor();
  await assertFewRows();
});

test('filters by text, request and level', async () => {
  const text = page.getByRole('searchbox', { name: 'Text in the lines' });
  await text.fill('FILLER 1234');
  await counter('1 of 10,000 lines').waitFor();
  await text.fill('filler');
  // The daemon may have logged lines of its own meanwhile, which push the oldest out.
  await page.getByText(/^(?:10,000|9,9\d\d of 10,000) lines$/).waitFor();
  await assertFewRows();
  await text.fill('');
  await page.getByRole('searchbox', { name: 'Id of a request' }).fill('req_7');
  await counter('100 of 10,000 lines').waitFor();
  await page.getByLabel('Least level').selectOption('error');
  await counter('0 of 10,000 lines').waitFor();
  await page.getByLabel('Least level').selectOption('trace');
  await page.getByRole('searchbox', { name: 'Id of a request' }).fill('');
  await counter('10,000 lines').waitFor();
});

test('arrow keys choose lines, which are shown with all their fields', async () => {
  const list = page.getByRole('listbox', { name: 'Log lines' });
  await list.focus();
  await page.keyboard.press('End');
  const chosen = page.getByRole('region', { name: 'Chosen line' });
  await chosen.waitFor();
  const last = list.getByRole('option', { selected: true });
  assert.is(await last.getAttribute('aria-posinset'), await last.getAttribute('aria-setsize'));
  await page.locator('.log-row', { hasText: 'filler 9999' }).click();
  await chosen.getByRole('heading', { name: 'filler 9999' }).waitFor();
  assert.match(await chosen.innerText(), /"id": "req_99"/);
  await list.focus();
  await page.keyboard.press('Home');
  const first = list.getByRole('option', { selected: true });
  await first.waitFor();
  assert.is(await first.getAttribute('aria-posinset'), '1');
  assert.is(await list.getAttribute('aria-activedescendant'), await first.getAttribute('id'));
  for (let presses = 0; presses < 20; presses++) await page.keyboard.press('PageDown');
  await waitFor('a later line', async () => Number(await first.getAttribute('aria-posinset')) > 200);
  await assertFewRows();
});

test('new lines appear, and are followed only at the end', async () => {
  const { log_path } = await served.daemon.client.status();
  appendFileSync(log_path, line('while reading above', 'req_new'));
  await page.getByRole('searchbox', { name: 'Text in the lines' }).fill('while reading');
  await page.locator('.log-row', { hasText: 'while reading above' }).waitFor();
  await page.getByRole('searchbox', { name: 'Text in the lines' }).fill('');
  const list = page.getByRole('listbox', { name: 'Log lines' });
  await list.evaluate((element) => element.scrollTo({ top: element.scrollHeight }));
  await page.locator('.log-row', { hasText: 'while reading above' }).waitFor();
  appendFileSync(log_path, line('followed', 'req_new', 'warn'));
  await page.locator('.log-row', { hasText: 'followed' }).waitFor();
});

test('the address chooses the request', async () => {
  await page.evaluate(() => (location.hash = '#/logs?request=req_new'));
  await page.getByRole('searchbox', { name: 'Id of a request' }).waitFor();
  await counter('2 of 10,000 lines').waitFor();
});

test('an error goes with the next stream that works', async () => {
  const error = { code: 'INTERNAL', message: 'the log cannot be read' };
  const fail = { status: 500, contentType: 'application/json', body: JSON.stringify({ error }) };
  await page.getByRole('link', { name: 'Chat', exact: true }).click();
  await page.route(/\/v1\/runtime\/logs/, (route) => route.fulfill(fail), { times: 1 });
  await page.getByRole('link', { name: 'Logs', exact: true }).click();
  const problem = page.getByRole('alert').getByText('The log cannot be read');
  await problem.waitFor();
  await page.getByRole('link', { name: 'Chat', exact: true }).click();
  await page.getByRole('link', { name: 'Logs', exact: true }).click();
  await page.locator('.log-row').first().waitFor();
  assert.is(await problem.count(), 0);
});

suite.run();

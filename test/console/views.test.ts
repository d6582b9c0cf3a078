/** The views of what the daemon does and did, in a real browser: live figures, cancelling, doctor, usage, keys. */
import { test as suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { Page } from 'playwright-core';
import { startUpstream, type Upstream } from '../backends/cloud/upstream.ts';
import { svc } from '../support/svc.ts';
import { unless } from '../support/skip.ts';
import { waitFor } from '../support/wait.ts';
import { noBrowser, openConsole, type Console } from './browser.ts';

const test = unless(noBrowser, suite);

let upstream: Upstream;
let served: Console;
let page: Page;

suite.before(async () => {
  if (noBrowser !== undefined) return;
  // Begins to answer, and never ends.
  upstream = await startUpstream(async (turn) => {
    await turn.event({ choices: [{ index: 0, delta: { content: 'Once' } }] });
    await turn.over();
  });
  served = await openConsole({
    config: { providers: { farm: { base_url: `${upstream.url}/v1`, default_model: 'sage' } } },
  });
  page = await served.open();
});
suite.after(async () => {
  if (noBrowser !== undefined) return;
  await served.close();
  await upstream.close();
  assert.equal(served.problems, []);
});

const go = async (name: string): Promise<void> => await page.getByRole('link', { name, exact: true }).click();

test('a running request is shown, and cancelled', async () => {
  await page.getByLabel('Model', { exact: true }).selectOption('farm/sage');
  await page.getByRole('textbox', { name: 'Message' }).fill('A story');
  await page.keyboard.press('Enter');
  await page.locator('.turn.assistant').getByText('Once').waitFor();
  await go('Now');
  const row = page.locator('tbody tr', { hasText: 'sage' });
  await row.getByText('running').waitFor();
  await row.getByRole('button', { name: /^Cancel the request/ }).click();
  await row.waitFor({ state: 'detached' });
  await waitFor('the provider to be left', () => upstream.connections() === 0);
  await go('Chat');
  await page.locator('.turn.assistant').getByText('Once').waitFor();
  await page.getByRole('button', { name: 'Send' }).waitFor();
});

test('figures arrive each second, and each plot has its values as text', async () => {
  await page.getByLabel('Model', { exact: true }).selectOption('builtin');
  await page.getByRole('textbox', { name: 'Message' }).fill('Hello');
  await page.keyboard.press('Enter');
  await page.locator('.turn.assistant').last().getByText('first after').waitFor();
  await go('Now');
  for (const title of ['Generated tokens per second', 'Time to first token', 'Queue', 'Cache cells in use', 'Memory'])
    await page.getByRole('figure').filter({ hasText: title }).locator('canvas').waitFor();
  const memory = page.getByRole('figure').filter({ hasText: 'Memory' });
  await memory.getByText(/builtin [\d.]+ MB/).waitFor();
  const samples = async (): Promise<number> => Number(await memory.getAttribute('data-samples'));
  const before = await samples();
  await waitFor('two further samples', async () => (await samples()) >= before + 2);
});

test('the checks of doctor are in sight when Health is opened, at every width', async () => {
  for (const [width, height] of [
    [360, 740],
    [1280, 800],
    [3840, 2160],
  ] as const) {
    const narrow = await served.open('#/health', { width, height });
    await narrow.getByRole('heading', { name: 'listeners', exact: true }).waitFor();
    const box = await narrow.getByRole('button', { name: 'Run all checks' }).boundingBox();
    assert.ok(box !== null && box.y >= 0 && box.y + box.height <= height, `${width}: ${JSON.stringify(box)}`);
    await narrow.close();
  }
});

test('the checks of doctor are run, with what mends them', async () => {
  await go('Health');
  await page.getByRole('button', { name: 'Run all checks' }).click();
  // The child starts a whole svc.
  await page.getByRole('heading', { name: 'node', exact: true }).waitFor({ timeout: 90_000 });
  assert.ok((await page.locator('.check-line').count()) > 15);
});

test('usage has the tokens of the answers above', async () => {
  await go('Usage');
  await page.getByRole('row', { name: /^builtin \d+ 0 \d+/ }).waitFor();
  await page.getByLabel('Time span').selectOption('7');
  await page.getByRole('row', { name: /^builtin \d+ 0 \d+/ }).waitFor();
});

test('a key is made by a signed-in page only, shown once, and removed', async () => {
  await go('Keys');
  await page.getByText('There is no key yet.').waitFor();
  await page.getByRole('button', { name: 'Add a key' }).click();
  await page.getByLabel('Name').fill('owner');
  await page.getByRole('button', { name: 'Make the key' }).click();
  await page.getByRole('alert').getByText('svc open', { exact: false }).waitFor();
  await page.getByRole('button', { name: 'Close' }).click();

  const { stdout } = await svc(['open', '--print'], { home: served.home });
  await page.goto(stdout.trim());
  await page.getByRole('button', { name: 'Sign out' }).waitFor();
  await go('Keys');
  await page.getByRole('button', { name: 'Add a key' }).click();
  await page.getByLabel('Name').fill('owner');
  await page.getByRole('button', { name: 'Make the key' }).click();
  const shown = page.getByRole('dialog', { name: 'Key owner' });
  const key = await shown.locator('.secret code').innerText();
  await shown.getByRole('button', { name: 'Done' }).click();
  await page.getByRole('heading', { name: 'owner' }).waitFor();
  const asked = await fetch(`${served.url}/v1/models`, { headers: { authorization: `Bearer ${key}` } });
  assert.equal([asked.status, (await fetch(`${served.url}/v1/models`)).status], [200, 401]);
  assert.not.ok((await page.content()).includes(key));
  await page.getByRole('button', { name: 'Remove owner', exact: true }).click();
  await page.getByRole('button', { name: 'Really remove owner' }).click();
  await page.getByText('There is no key yet.').waitFor();
});

suite.run();

/** Models in a real browser: pulled from a hub on loopback, loaded, made the default, removed; and a killed engine. */
import { test as suite } from 'uvu';
import * as assert from 'uvu/assert';
import { readFileSync } from 'node:fs';
import type { Page } from 'playwright-core';
import { FakeHub } from '../models/pull/fake-hub.ts';
import { makeGate } from '../support/gate.ts';
import { modelPath } from '../support/native-engine.ts';
import { unless } from '../support/skip.ts';
import { killQuietly } from '../../scripts/steps/processes.js';
import { waitFor } from '../support/wait.ts';
import { noBrowser, openConsole, type Console } from './browser.ts';

const test = unless(noBrowser, suite);

const NAME = 'hf:acme/Tiny-GGUF';
const ID = 'acme/Tiny-GGUF:Q8_0';
const hub = new FakeHub();
let served: Console;
let page: Page;

suite.before(async () => {
  if (noBrowser !== undefined) return;
  await hub.start();
  hub.add('acme/Tiny-GGUF', 'Tiny-Q8_0.gguf', readFileSync(modelPath('tiny-llama')));
  served = await openConsole({ models: { tiny: 'tiny-llama' }, env: { HF_ENDPOINT: hub.endpoint } });
  page = await served.open('#/models');
});
suite.after(async () => {
  if (noBrowser !== undefined) return;
  await served.close();
  await hub.stop();
  assert.equal(served.problems, []);
});

const card = (id: string): ReturnType<Page['locator']> => page.locator(`[data-model="${id}"]`);
const button = (name: string): ReturnType<Page['getByRole']> => page.getByRole('button', { name, exact: true });

test('a pull shows how far it is, is stopped and goes on, and the model appears', async () => {
  const gate = makeGate();
  hub.onBytes = async (request) => {
    if (request.from === 0)
      await hub.write(request.res.writeHead(206, rangeOf(request)), request.content.subarray(0, 1e6));
    await Promise.race([gate.opened, new Promise((resolve) => request.res.once('close', resolve))]);
    return request.res.destroyed || request.from === 0 ? (request.res.destroy(), true) : false;
  };
  await page.getByRole('textbox', { name: 'Model to pull' }).fill(NAME);
  await page.keyboard.press('Enter');
  const pulls = page.getByRole('list', { name: 'Pulls' });
  await pulls.getByText(/^[\d.]+ (kB|MB) of 5\.\d MB · .* left/).waitFor();
  assert.is(await pulls.getByRole('progressbar').count(), 1);
  await button('Stop').click();
  await pulls.getByText(/^Stopped at .* of 5\.\d MB; what is there is kept$/).waitFor();
  gate.open();
  hub.reset();
  await button('Go on').click();
  await pulls.getByText('Installed').waitFor();
  await card(ID).waitFor();
  await button('Dismiss').click();
});

test('a name that no hub has is refused, with what to do', async () => {
  await page.getByRole('textbox', { name: 'Model to pull' }).fill('hf:acme/Nothing');
  await page.keyboard.press('Enter');
  await page.getByRole('alert').waitFor();
  assert.match(await page.getByRole('alert').innerText(), /acme\/Nothing/);
  await button('Dismiss').click();
});

test('the model is loaded and unloaded, by keyboard', async () => {
  await button(`Load ${ID}`).focus();
  await page.keyboard.press('Enter');
  await card(ID).getByText('loaded', { exact: true }).waitFor();
  assert.match(await card(ID).innerText(), /of\smemory · context\s[\d,]+ · idle/);
  await button(`Unload ${ID}`).focus();
  await page.keyboard.press('Enter');
  await card(ID).getByText('installed', { exact: true }).waitFor();
});

test('an engine is killed: the page shows it, and that it is back', async () => {
  await button(`Load tiny`).click();
  await card('tiny').getByText('loaded', { exact: true }).waitFor();
  await page.getByRole('link', { name: 'Health' }).click();
  const engine = page.locator('.check-line', { hasText: 'tiny' });
  const pidOf = async (): Promise<number> => Number(/process (\d+)/.exec(await engine.innerText())?.[1]);
  const condition = page
    .locator('.check-line')
    .filter({ has: page.getByRole('heading', { name: 'engine', exact: true }) });
  const statusOf = async (): Promise<string> => await condition.locator('.badge').innerText();
  const first = await pidOf();
  // One crash is mended within a second; a page that looks once a second may miss it.
  await waitFor('the page to show it', async () => {
    const { models } = await served.daemon.client.status();
    const pid = models.find(({ id }) => id === 'tiny')?.pid ?? null;
    if (pid !== null) killQuietly(pid);
    return (await statusOf()) !== 'ok';
  });
  await waitFor('the page to show that it is back', async () => (await statusOf()) === 'ok');
  await engine.getByText('loaded', { exact: true }).waitFor();
  assert.is.not(await pidOf(), first);
  await page.getByRole('link', { name: 'Models' }).click();
});

test('the default is another model, and one is removed after a second click', async () => {
  await button('Make default: tiny').click();
  await card('tiny').getByText('default', { exact: true }).waitFor();
  await button(`Remove ${ID}`).click();
  await button(`Really remove ${ID}`).click();
  await card(ID).waitFor({ state: 'detached' });
});

test('the catalogue says what this machine can run', async () => {
  await page.getByText('smollm2-360m').waitFor();
  assert.ok((await page.locator('.card .badge', { hasText: /^(fits|does not fit)$/ }).count()) > 3);
});

function rangeOf({ from, to, content }: { from: number; to: number; content: Buffer }): Record<string, string> {
  return { 'content-range': `bytes ${from}-${to - 1}/${content.length}` };
}

suite.run();

/** Quantising, verifying and importing in a real browser: progress, cancellation, refusals, and no wider than 360 pixels. */
import { readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test as suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { Page } from 'playwright-core';
import { copyInto, writeOllama } from '../cli/foreign-stores.ts';
import { holdNextChild } from '../support/held-child.ts';
import { modelPath } from '../support/native-engine.ts';
import { unless } from '../support/skip.ts';
import { waitFor } from '../support/wait.ts';
import { noBrowser, openConsole, type Console } from './browser.ts';

const test = unless(noBrowser, suite);
/** A sparse file of this size is read for minutes, unless the reading is cancelled. */
const HUGE_BYTES = 256 * 1024 ** 3;

let served: Console;
let page: Page;
/** Home of a user, with the stores of other programs. */
let user: string;

suite.before(async () => {
  if (noBrowser !== undefined) return;
  user = await mkdtemp(join(tmpdir(), 'svc-user-'));
  const ollama = join(user, 'ollama');
  writeOllama(ollama, 'registry.ollama.ai/library/llama/latest', { model: { file: modelPath('tiny-llama') } });
  writeOllama(ollama, 'registry.ollama.ai/library/small/latest', { model: { file: modelPath('tiny-qwen2') } });
  copyInto(
    join(ollama, 'manifests', 'registry.ollama.ai', 'library', 'llama', 'latest'),
    join(ollama, 'manifests', 'x'),
  );
  const env = { HOME: user, OLLAMA_MODELS: ollama, XDG_CACHE_HOME: user, HF_HOME: user, HF_HUB_CACHE: user };
  served = await openConsole({ models: { gemma: 'tiny-gemma', qwen: 'tiny-qwen2' }, env });
  page = await served.open('#/models');
});
suite.after(async () => {
  if (noBrowser !== undefined) return;
  await served.close();
  await rm(user, { recursive: true });
  assert.equal(served.problems, []);
});

const card = (id: string): ReturnType<Page['locator']> => page.locator(`[data-model="${id}"]`);
const button = (name: string): ReturnType<Page['getByRole']> => page.getByRole('button', { name, exact: true });
const dialog = (name: string): ReturnType<Page['getByRole']> => page.getByRole('dialog', { name });
const blobs = async (): Promise<string[]> =>
  await readdir(join(served.home.dir, 'models', 'blobs')).catch(() => [] as string[]);

test('a model is quantised, by keyboard: the copy appears, and the model tells so', async () => {
  await button('Quantize gemma…').focus();
  await page.keyboard.press('Enter');
  await dialog('Quantize gemma').getByLabel('Type').selectOption('Q8_0');
  await dialog('Quantize gemma').getByLabel('Name of the copy').fill('gemma-small');
  await page.keyboard.press('Enter');
  await dialog('Quantize gemma').waitFor({ state: 'detached' });
  await card('gemma')
    .getByText(/^Quantising gemma: gemma-small is installed, [\d.]+ MB$/)
    .waitFor();
  assert.match(await card('gemma-small').innerText(), /Q8_0/);
  await page.getByRole('status').getByText('gemma-small is installed').waitFor();
  await button('Dismiss: Quantising gemma').click();
});

test('quantising shows how far it is and is cancelled; nothing is kept', async () => {
  const before = await blobs();
  const held = holdNextChild(served.daemon.pid, { skip: 1 });
  await button('Quantize gemma…').click();
  await dialog('Quantize gemma').getByRole('button', { name: 'Quantize', exact: true }).click();
  await held;
  await card('gemma').getByRole('progressbar', { name: 'Quantising gemma' }).waitFor();
  await card('gemma')
    .getByText(/making gemma-q4_k_m, [\d.]+ MB/)
    .waitFor();
  assert.ok(await button('Verify gemma').isDisabled());
  // It goes on while another view is shown.
  await page.getByRole('link', { name: 'Usage' }).click();
  await page.getByRole('heading', { name: 'Usage', level: 1 }).waitFor();
  await page.getByRole('link', { name: 'Models' }).click();
  await button('Cancel: Quantising gemma').click();
  await card('gemma').getByText('Quantising gemma: cancelled').waitFor();
  await waitFor('the file to be removed', async () => (await blobs()).join() === before.join());
  assert.is(await card('gemma-q4_k_m').count(), 0);
});

test('what cannot be made is refused at the model, and a quantised source needs consent', async () => {
  await button('Quantize gemma…').click();
  await dialog('Quantize gemma').getByLabel('Name of the copy').fill('qwen');
  await page.keyboard.press('Enter');
  await card('gemma').getByRole('alert').waitFor();
  assert.match(await card('gemma').getByRole('alert').innerText(), /A model with this name exists: qwen/);
  await button('Quantize qwen…').click();
  const form = dialog('Quantize qwen');
  const go = form.getByRole('button', { name: 'Quantize', exact: true });
  assert.ok(await go.isDisabled());
  await form.getByLabel('Accept that Q4_0 is quantised already').check();
  assert.not.ok(await go.isDisabled());
  await page.keyboard.press('Escape');
  await form.waitFor({ state: 'detached' });
});

test('a model is verified, and the reading of a large one shows its rate and is cancelled', async () => {
  await button('Verify gemma-small').click();
  await card('gemma-small').getByText('Verifying gemma-small: intact, every file has its digest').waitFor();
  const registry = join(served.home.dir, 'models', 'registry.json');
  const known = JSON.parse(readFileSync(registry, 'utf8')) as {
    models: { id: string; path: string; size_bytes: number }[];
  };
  for (const entry of known.models) {
    if (entry.id !== 'qwen') continue;
    entry.path = copyInto(entry.path, join(user, 'huge.gguf'));
    truncateSync(entry.path, HUGE_BYTES);
    entry.size_bytes = HUGE_BYTES;
  }
  writeFileSync(registry, JSON.stringify(known));
  await button('Verify qwen').click();
  await card('qwen')
    .getByText(/ of 274\.9 GB · [\d.]+ [MG]B\/s · .* left$/)
    .waitFor();
  await button('Cancel: Verifying qwen').click();
  await card('qwen').getByText('Verifying qwen: cancelled').waitFor();
  await waitFor('the daemon to verify the next one', async () => {
    await button('Verify gemma').click();
    await card('gemma')
      .getByText(/^Verifying gemma: (intact|failed)/)
      .waitFor();
    return (await card('gemma').getByText('Verifying gemma: intact').count()) > 0;
  });
});

test('an import needs an administrator with a key', async () => {
  await button('Import…').click();
  await dialog('Import models').getByRole('alert').waitFor();
  assert.match(await dialog('Import models').innerText(), /needs an API key of scope admin[^]*svc open/);
  await page.keyboard.press('Escape');
});

test('an import lists what other programs have, and registers what is chosen', async () => {
  const { url } = await served.daemon.client.consoleLink(false);
  await page.goto(url);
  await page.getByText('ready').waitFor();
  await page.getByRole('link', { name: 'Models' }).click();
  await button('Import…').click();
  const form = dialog('Import models');
  await form.getByRole('list', { name: 'Models found' }).waitFor();
  const llama = form.getByLabel(/^llama:latest/);
  assert.ok(await llama.isChecked());
  assert.match(await form.getByRole('list', { name: 'Models found' }).innerText(), /llama:latest\s+Ollama · 5\.5\sMB/);
  await form.getByText('1 file cannot be used').click();
  await form.getByText('HOST/NAMESPACE/NAME/TAG').waitFor();
  await llama.uncheck();
  assert.ok(await form.getByRole('button', { name: 'Import 1 model', exact: true }).isVisible());
  await llama.check();
  await form.getByLabel(/^small:latest/).uncheck();
  await form.getByRole('button', { name: 'Import 1 model', exact: true }).click();
  const imports = page.getByRole('list', { name: 'Imports' });
  await imports.getByText(/^Importing 1 model: installed llama:latest/).waitFor();
  await card('llama:latest').waitFor();
  assert.is(await card('small:latest').count(), 0);
  await button('Dismiss: Importing 1 model').click();
  await imports.waitFor({ state: 'detached' });
});

test('on a narrow screen neither the dialogs nor the results are wider than it', async () => {
  await page.setViewportSize({ width: 360, height: 740 });
  const widest = async (): Promise<number> =>
    await page.evaluate(() => {
      const main = document.querySelector('main') as HTMLElement;
      const dialogs = [...document.querySelectorAll('dialog')].map((each) => each.scrollWidth - each.clientWidth);
      return Math.max(
        document.documentElement.scrollWidth - innerWidth,
        main.scrollWidth - main.clientWidth,
        ...dialogs,
      );
    });
  await button('Verify llama:latest').click();
  await card('llama:latest')
    .getByText(/intact/)
    .waitFor();
  assert.ok((await widest()) <= 0, 'the view');
  for (const [name, sign] of [
    ['Quantize gemma…', 'Type'],
    ['Import…', 'small:latest'],
  ] as const) {
    await button(name).click();
    await page.getByRole('dialog').getByText(sign).first().waitFor();
    assert.ok((await widest()) <= 0, name);
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
  }
});

suite.run();

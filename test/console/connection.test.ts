/** The page while the daemon is away: it says so, keeps what it shows, and goes on when the daemon is back. */
import { test as suite } from 'uvu';
import * as assert from 'uvu/assert';
import { HTTP_ROUTES } from '../../src/protocol/routes.ts';
import { ask } from '../http/ask.ts';
import { spawnDaemon } from '../support/daemon.ts';
import { unless } from '../support/skip.ts';
import { noBrowser, openConsole } from './browser.ts';

const test = unless(noBrowser, suite);

test('a daemon that is killed and started again', async () => {
  const served = await openConsole();
  const page = await served.open('#/chat');
  await page.getByRole('textbox', { name: 'Message' }).fill('Hello');
  await page.keyboard.press('Enter');
  await page.getByText('first after').waitFor();
  await page.getByText('ready').waitFor();

  served.daemon.kill('SIGKILL');
  await served.daemon.exit;
  await page.getByText('svc does not answer. This page connects again by itself').first().waitFor();
  await page.getByRole('textbox', { name: 'Message' }).fill('Are you there?');
  await page.keyboard.press('Enter');
  await page.locator('.turn.assistant .problem').getByText('svc does not answer').waitFor();

  const again = await spawnDaemon(served.home, { env: { SVC_HTTP_ADDR: new URL(served.url).host } }).settled();
  try {
    await page.getByText('ready').waitFor();
    assert.is(await page.locator('.banner').count(), 0);
    await page.getByRole('button', { name: 'Answer again' }).last().click();
    await page.getByText('first after').nth(1).waitFor();
    assert.is(await page.locator('.turn').count(), 4);
  } finally {
    await served.browser.close();
    again.kill('SIGTERM');
    await again.exit;
    await served.home.remove();
  }
  assert.equal(served.problems, []);
});

test('a daemon that is not ready is shown with the reason, and the views read on', async () => {
  const served = await openConsole();
  try {
    const page = await served.open('#/chat');
    await page.locator('.status', { hasText: 'ready' }).waitFor();
    let reads = 0;
    page.on('request', (request) => (reads += request.url().includes(HTTP_ROUTES.runtimeLogs) ? 1 : 0));
    await page.getByRole('link', { name: 'Logs', exact: true }).click();
    await page.locator('.log-row').first().waitFor();
    await ask({ socketPath: served.daemon.socketPath }, '/control/drain', { body: { drain: true } });
    await page.locator('.status', { hasText: 'stopping' }).waitFor();
    await page.getByRole('link', { name: 'Health', exact: true }).click();
    await page.getByText('the daemon is draining and refuses new requests').waitFor();
    await page.getByText(`process ${String(served.daemon.pid)}`).waitFor();
    assert.is(reads, 1);
  } finally {
    await served.close();
  }
  assert.equal(served.problems, []);
});

suite.run();

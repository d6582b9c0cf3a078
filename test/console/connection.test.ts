/** The page while the daemon is away: it says so, keeps what it shows, and goes on when the daemon is back. */
import { test as suite } from 'uvu';
import * as assert from 'uvu/assert';
import { HTTP_ROUTES } from '../../src/protocol/routes.ts';
import { ask } from '../http/ask.ts';
import { spawnDaemon } from '../support/daemon.ts';
import { OWN_ADDRESS } from '../support/own-address.ts';
import { unless } from '../support/skip.ts';
import { noBrowser, openConsole } from './browser.ts';

const test = unless(noBrowser, suite);

test('a daemon that is killed and started again', async () => {
  const served = await openConsole({ env: { SVC_HTTP_ADDR: `${OWN_ADDRESS}:0` } });
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

test('by an address to which browsers send no Sec-Fetch-Site, without keys', async () => {
  const served = await openConsole();
  try {
    const page = await served.open();
    await page.goto(`${served.url.replace('127.0.0.1', '0.0.0.0')}/#/logs`);
    await page.locator('.log-row').first().waitFor();
  } finally {
    await served.close();
  }
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

test('a stream that breaks while the daemon answers is read again', async () => {
  const served = await openConsole();
  try {
    const page = await served.open('#/chat');
    await page.locator('.status', { hasText: 'ready' }).waitFor();
    let reads = 0;
    page.on('request', (request) => (reads += request.url().includes(HTTP_ROUTES.runtimeLogs) ? 1 : 0));
    const record = JSON.stringify({ level: 'info', time: new Date().toISOString(), msg: 'before the break' });
    const events = {
      [HTTP_ROUTES.runtimeLogs]: `{"type":"record","record":${record}}\n`,
      [HTTP_ROUTES.runtimeLive]: '',
    };
    for (const [path, body] of Object.entries(events)) {
      const pattern = new RegExp(`${path}(\\?|$)`);
      // The newest handler comes first: one request gets no answer, the next one an answer without its end.
      await page.route(pattern, (route) => route.fulfill({ contentType: 'application/x-ndjson', body }), { times: 1 });
      await page.route(pattern, (route) => route.abort('connectionreset'), { times: 1 });
    }
    await page.getByRole('link', { name: 'Logs', exact: true }).click();
    await page.locator('.log-row', { hasText: 'engine started' }).waitFor();
    assert.is(reads, 3);
    assert.is(await page.locator('.log-row', { hasText: 'before the break' }).count(), 0, 'lines of the broken stream');
    await page.getByRole('link', { name: 'Now', exact: true }).click();
    await page.locator('.plot canvas').first().waitFor();
  } finally {
    await served.close();
  }
  assert.equal(served.problems, []);
});

suite.run();

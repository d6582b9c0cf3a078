/** The page while the daemon is away: it says so, keeps what it shows, and goes on when the daemon is back. */
import { test as suite } from 'uvu';
import * as assert from 'uvu/assert';
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

suite.run();

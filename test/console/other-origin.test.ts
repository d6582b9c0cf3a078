/** A page of another origin, in a real browser, tries every route of a daemon that asks this machine for no key. */
import { existsSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test as suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { Page } from 'playwright-core';
import { HTTP_ROUTES } from '../../src/protocol/routes.ts';
import type { ModelRecord } from '../../src/protocol/records.ts';
import { unless } from '../support/skip.ts';
import { svc } from '../support/svc.ts';
import { noBrowser, openConsole, PATIENCE_MS, type Console } from './browser.ts';

const test = unless(noBrowser, suite);

let served: Console;
let site: Server;
let foreign: Page;

suite.before(async () => {
  if (noBrowser !== undefined) return;
  served = await openConsole({ models: { tiny: 'tiny-llama' } });
  site = createServer((_, res) => res.setHeader('content-type', 'text/html').end('<!doctype html><title>x</title>'));
  site.listen(0, '127.0.0.1');
  await once(site, 'listening');
  // Not by `served.open`: what the browser refuses this page is reported as an error.
  foreign = await served.browser.newPage();
  foreign.setDefaultTimeout(PATIENCE_MS);
  await foreign.goto(`http://127.0.0.1:${(site.address() as AddressInfo).port}/`);
});
suite.after(async () => {
  if (noBrowser !== undefined) return;
  await served.close();
  site.closeAllConnections();
  site.close();
});

const PATHS = Object.values(HTTP_ROUTES).map((path) => path.replace('*', 'x'));
/** Names what a route may change; each route takes the fields that it knows. */
const BODY = JSON.stringify({ model: 'tiny', name: 'intruder', scope: 'admin', token: 'x', id: 'x', prompt: 'Hi' });

test('it can read no answer', async () => {
  const read = await foreign.evaluate(
    async ({ url, paths, body }) => {
      const requests = paths.flatMap((path) => [
        { path, init: {} },
        { path, init: { headers: { authorization: 'Bearer x' } } },
        { path, init: { method: 'POST', body, headers: { 'content-type': 'text/plain' } } },
        { path, init: { method: 'POST', body, headers: { 'content-type': 'application/json' } } },
        { path, init: { method: 'DELETE' } },
      ]);
      const outcomes = [];
      for (const { path, init } of requests) {
        const text = await fetch(url + path, init).then(
          async (response) => await response.text(),
          () => null,
        );
        if (text !== null) outcomes.push(`${path} ${JSON.stringify(init)}: ${text}`);
      }
      return outcomes;
    },
    { url: served.url, paths: PATHS, body: BODY },
  );
  assert.equal(read, []);
});

test('it can change nothing without reading: posts without a preflight, and forms', async () => {
  const state = async (): Promise<unknown> => {
    const { code, stdout } = await svc(['model', 'list', '--json'], { home: served.home });
    assert.is(code, 0);
    const models = (JSON.parse(stdout) as { models: ModelRecord[] }).models.map(
      ({ id, default: isDefault, state: loaded }) => ({ id, isDefault, loaded }),
    );
    return { models, keys: existsSync(join(served.home.dir, 'data', 'keys.json')) };
  };
  const before = await state();
  const sent = await foreign.evaluate(
    async ({ url, paths, body }) => {
      for (const path of paths) {
        await fetch(url + path, { method: 'POST', mode: 'no-cors', body }).catch(() => null);
        navigator.sendBeacon(url + path, new Blob([body], { type: 'text/plain' }));
        const form = document.createElement('form');
        const frame = document.createElement('iframe');
        frame.name = 'answer';
        form.target = 'answer';
        form.method = 'post';
        form.enctype = 'text/plain';
        form.action = url + path;
        const field = document.createElement('input');
        field.name = body;
        form.append(field);
        document.body.append(frame, form);
        const loaded = new Promise((resolve) => (frame.onload = resolve));
        form.submit();
        await loaded;
        form.remove();
        frame.remove();
      }
      return paths.length;
    },
    { url: served.url, paths: PATHS, body: BODY },
  );
  assert.ok(sent > 30);
  assert.equal(await state(), before);
});

test('it can neither frame the page nor run its script', async () => {
  await foreign.evaluate(async (url) => {
    const frame = document.createElement('iframe');
    frame.src = url;
    document.body.append(frame);
    await new Promise((resolve) => (frame.onload = resolve));
  }, `${served.url}/`);
  const apps = await Promise.all(foreign.frames().map((frame) => frame.locator('#app').count()));
  assert.is(foreign.frames().length, 2);
  assert.equal(
    apps.filter((count) => count > 0),
    [],
  );
  const script = await foreign.evaluate(
    async (url) =>
      await new Promise((resolve) => {
        const element = document.createElement('script');
        element.onload = () => resolve('ran');
        element.onerror = () => resolve('refused');
        element.src = url;
        document.head.append(element);
      }),
    `${served.url}/console/console.js`,
  );
  assert.is(script, 'refused');
});

test('a window that it opens is out of its reach', async () => {
  const [opened] = await Promise.all([
    foreign.waitForEvent('popup'),
    foreign.evaluate((url) => void Object.assign(window, { opened: window.open(url) }), `${served.url}/`),
  ]);
  await opened.getByRole('textbox', { name: 'Message' }).waitFor();
  assert.is(await opened.evaluate(() => window.opener), null);
  assert.is(await foreign.evaluate(() => (window as unknown as { opened: Window }).opened.closed), true);
});

suite.run();

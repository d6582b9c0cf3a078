/** Managing a real daemon over HTTP, as the console does: records, models, the hub, and who may not. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { PUBLIC } from '../../src/daemon/http/routes.ts';
import { addKey } from '../../src/home/key-file.ts';
import type { CatalogueModel } from '../../src/protocol/console.ts';
import type { ModelRecord } from '../../src/protocol/records.ts';
import { HTTP_ROUTES } from '../../src/protocol/routes.ts';
import { ask, type Answer } from '../http/ask.ts';
import { FakeHub } from '../models/pull/fake-hub.ts';
import { MIB, modelOf } from '../models/pull/pull-support.ts';
import { assertExit } from '../support/exit.ts';
import { spawnDaemon, type DaemonProcess } from '../support/daemon.ts';
import { makeHome, type Home } from '../support/home.ts';
import { modelPath } from '../support/native-engine.ts';
import { svc } from '../support/svc.ts';

const R = HTTP_ROUTES;
const hub = new FakeHub();
let home: Home;
let daemon: DaemonProcess;
let port: number;
test.before(async () => {
  await hub.start();
  hub.add('acme/Tiny-GGUF', 'Tiny-Q4_K_M.gguf', modelOf(3 * MIB));
  home = await makeHome();
  assertExit(await svc(['model', 'add', modelPath('tiny-llama'), '--name', 'random'], { home }), 0);
  daemon = await spawnDaemon(home, { env: { HF_ENDPOINT: hub.endpoint } }).settled();
  port = Number((await daemon.client.status()).http?.split(':').at(-1));
});
test.after(async () => {
  daemon.kill('SIGTERM');
  const { code } = await daemon.exit;
  await home.remove();
  await hub.stop();
  assert.is(code, 0);
});

const post = (path: string, body: object): Promise<Answer> => ask({ port }, path, { body });
const linesOf = ({ text }: Answer): any[] =>
  text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as object);
const model = async (id: string): Promise<ModelRecord | undefined> =>
  (await daemon.client.models()).find((each) => each.id === id);

test('status and providers are the records of the commands', async () => {
  const status = (await ask({ port }, R.runtimeStatus)).json();
  const { uptime_seconds: _, models: _models, ...facts } = await daemon.client.status();
  for (const [name, value] of Object.entries(facts)) assert.equal(status[name], value, name);
  assert.equal((await ask({ port }, R.runtimeProviders)).json(), { providers: await daemon.client.providers() });
});

test('a model is loaded, becomes the default, and is unloaded', async () => {
  const loaded = linesOf(await post(R.runtimeLoad, { model: 'random', keep_alive_seconds: null }));
  assert.is(loaded.at(-1).type, 'loaded');
  assert.is((await model('random'))?.loaded?.pid, loaded.at(-1).pid);
  assert.equal((await post(R.runtimeDefault, { model: 'random' })).json(), {});
  assert.ok((await model('random'))?.default);
  assert.equal((await post(R.runtimeUnload, { model: 'random' })).json(), {});
  assert.is((await model('random'))?.loaded, null);
});

test('a model is pulled from the hub of the daemon, and removed', async () => {
  const events = linesOf(await post(R.runtimePull, { model: 'hf:acme/Tiny-GGUF' }));
  assert.equal([events[0].type, events.at(-1).type], ['resolved', 'pulled']);
  const { id } = events.at(-1).model as ModelRecord;
  assert.ok(await model(id));
  assert.equal((await post(R.runtimeRemove, { model: id })).json(), {});
  assert.is(await model(id), undefined);
  const foreign = { endpoint: 'http://127.0.0.1:9', token: null, is_offline: false };
  const refused = await post(R.runtimePull, { model: 'hf:acme/Tiny-GGUF', hub: foreign });
  assert.equal([refused.status, refused.json().error.param], [400, 'hub']);
  assert.is((await post(R.runtimePull, { model: 'no-such-model' })).json().error.code, 'MODEL_NOT_FOUND');
});

test('neither a file nor an unknown name is a model', async () => {
  for (const path of [R.runtimeLoad, R.runtimeUnload, R.runtimeRemove, R.runtimeDefault])
    for (const name of [`file:${modelPath('tiny-llama')}`, modelPath('tiny-llama'), 'nothing']) {
      const { error } = (await post(path, { model: name })).json();
      assert.is(error.code, 'MODEL_NOT_FOUND', `${path} ${name}`);
    }
  assert.is((await post(R.runtimeLoad, {})).json().error.param, 'model');
});

test('the catalogue says what fits', async () => {
  const { models } = (await ask({ port }, R.runtimeCatalogue)).json() as { models: CatalogueModel[] };
  assert.ok(models.length > 5);
  for (const { name, fits, why, bytes, installed } of models) {
    assert.is(fits, why === undefined, name);
    assert.ok(bytes > 1e8 && !installed, name);
  }
  assert.ok(models.some(({ fits }) => fits));
});

test('a page of another origin is refused on every route, also to GET; one of this server is not', async () => {
  const routes = PUBLIC.filter(({ scope }) => scope === 'admin' || scope === 'admin_key');
  assert.ok(routes.some(({ method }) => method === 'GET') && routes.length > 8);
  for (const { method, path } of routes) {
    const options = { method, ...(method === 'GET' ? {} : { body: { model: 'nothing' } }) };
    for (const headers of [
      { origin: 'https://evil.example' },
      { origin: 'null' },
      { origin: `http://127.0.0.1:${String(port + 1)}` },
      { 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'same-site' },
      { host: 'evil.example' },
    ] as Record<string, string>[]) {
      const answer = await ask({ port }, path, { ...options, headers });
      assert.is(answer.status, 403, `${method} ${path} ${JSON.stringify(headers)}`);
    }
  }
  for (const headers of [{ origin: `http://127.0.0.1:${String(port)}` }, { 'sec-fetch-site': 'same-origin' }] as Record<
    string,
    string
  >[])
    assert.is((await ask({ port }, R.runtimeStatus, { headers })).status, 200);
});

test('with keys, only an administrator', async () => {
  const file = `${home.dir}/data/keys.json`;
  const [{ key: admin }, { key: other }, { key: narrow }] = [
    await addKey(file, 'deploy', 'admin'),
    await addKey(file, 'app', 'inference'),
    await addKey(file, 'narrow', 'admin', { models: ['svc-nano'] }),
  ];
  const as = (key: string): Record<string, string> => ({ authorization: `Bearer ${key}` });
  assert.is((await ask({ port }, R.runtimeStatus)).status, 401);
  assert.is((await ask({ port }, R.runtimeStatus, { headers: as(other) })).status, 403);
  assert.is((await ask({ port }, R.runtimeStatus, { headers: as(admin) })).status, 200);
  const body = { model: 'random' };
  assert.is((await ask({ port }, R.runtimeUnload, { body, headers: as(narrow) })).json().error.code, 'MODEL_NOT_FOUND');
});

test.run();

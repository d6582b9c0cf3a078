/** Pulls from a fake Ollama registry: manifest, layers, redirect to the bytes, and false manifests. */
import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { readFile } from 'node:fs/promises';
import * as assert from 'uvu/assert';
import { rejection } from '../../support/errors.ts';
import { sha256 } from './fake-hub.ts';
import { KIB, lastOf, modelOf, projectorOf, pullSuite } from './pull-support.ts';

const test = pullSuite('ollama registry');
const layer = (type: string, content: Buffer, changed: object = {}): object => ({
  mediaType: `application/vnd.ollama.image.${type}`,
  digest: `sha256:${sha256(content)}`,
  size: content.length,
  ...changed,
});
const LICENSE = Buffer.from('\n\n  MIT License\n\nCopyright\n');
const MODEL = modelOf(500 * KIB);
const PROJECTOR = projectorOf(40 * KIB, 3);

let server: Server;
let name = '';
let manifest: (res: ServerResponse) => void;
let asked: string[] = [];
test.before(async () => {
  const blobs = new Map([MODEL, PROJECTOR, LICENSE].map((content) => [`sha256:${sha256(content)}`, content]));
  server = createServer((req, res) => {
    const url = req.url ?? '';
    asked.push(url);
    if (url === '/v2/library/tiny/manifests/1b') return manifest(res);
    const content = blobs.get(url.split('/').at(-1) ?? '');
    if (content === undefined) return void res.writeHead(404).end();
    if (url.startsWith('/v2/')) {
      const location = `http://localhost:${(server.address() as AddressInfo).port}/store/${url.split('/').at(-1) ?? ''}`;
      return void res.writeHead(307, { location }).end();
    }
    const [, from = 0, last = content.length - 1] = /^bytes=(\d+)-(\d+)$/.exec(req.headers.range ?? '') ?? [];
    const body = content.subarray(Number(from), Number(last) + 1);
    const isPart = req.headers.range !== undefined;
    const range = `bytes ${from}-${Number(from) + body.length - 1}/${content.length}`;
    res.writeHead(isPart ? 206 : 200, { 'content-length': body.length, ...(isPart ? { 'content-range': range } : {}) });
    res.end(body);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  name = `127.0.0.1:${(server.address() as AddressInfo).port}/library/tiny:1b`;
});
test.after(() => {
  server.closeAllConnections();
  server.close();
});
test.before.each(() => {
  asked = [];
});

const says =
  (value: unknown): typeof manifest =>
  (res) =>
    void res.writeHead(200).end(JSON.stringify(value));

test('a model is pulled with its projector and licence', async ({ pull, store }) => {
  const layers = [
    layer('model', MODEL),
    layer('template', Buffer.from('{{ .Prompt }}')),
    layer('params', Buffer.from('{}')),
    layer('license', LICENSE),
    layer('projector', PROJECTOR),
  ];
  manifest = says({ schemaVersion: 2, layers });
  const { model } = lastOf(await pull(`ollama:${name}`));
  assert.equal(
    [model.id, model.source, model.license, model.digest, model.projector?.digest],
    [name, `ollama:${name}`, 'MIT License', `sha256:${sha256(MODEL)}`, `sha256:${sha256(PROJECTOR)}`],
  );
  assert.equal(await readFile(model.path), MODEL);
  assert.is((await store.find(`ollama:${name}`)).id, name);
});

test('a false or broken manifest is refused before any layer is requested', async ({ pull, store }) => {
  const bad = [
    {},
    { layers: [] },
    { layers: [layer('model', MODEL, { digest: 'sha256:../../../../etc/passwd' })] },
    { layers: [layer('model', MODEL, { digest: `sha256:${'A'.repeat(64)}` })] },
    { layers: [layer('model', MODEL, { digest: sha256(MODEL) })] },
    { layers: [layer('model', MODEL), layer('params', MODEL, { digest: '/etc/passwd' })] },
    { layers: [layer('model', MODEL, { size: -1 })] },
    { layers: [layer('model', MODEL, { size: 2 ** 60 })] },
    { layers: Array.from({ length: 300 }, () => layer('model', MODEL)) },
  ];
  for (const value of bad) {
    manifest = says(value);
    await rejection(() => pull(`ollama:${name}`), 'DOWNLOAD_FAILED', /manifest/);
  }
  for (const layers of [[layer('license', LICENSE)], [layer('model', MODEL), layer('model', MODEL)]]) {
    manifest = says({ layers });
    await rejection(() => pull(`ollama:${name}`), 'MODEL_NOT_FOUND', /no model that svc can run/);
  }
  manifest = (res) => void res.writeHead(200).end(Buffer.alloc(2 * 1024 * KIB, ' '));
  await rejection(() => pull(`ollama:${name}`), 'DOWNLOAD_FAILED', /larger than/);
  manifest = (res) => void res.writeHead(200, { 'content-encoding': 'gzip' }).end();
  await rejection(() => pull(`ollama:${name}`), 'DOWNLOAD_FAILED', /compressed/);
  assert.equal([...new Set(asked)], ['/v2/library/tiny/manifests/1b']);
  assert.is((await store.list()).length, 1);
});

test('a missing model is reported', async ({ pull }) => {
  await rejection(() => pull(`ollama:${name.replace('tiny', 'none')}`), 'MODEL_NOT_FOUND', /there is no/);
});

test.run();

/** Pulling a file from a URL. */
import { readFile } from 'node:fs/promises';
import * as assert from 'uvu/assert';
import { parseReference } from '../../../src/models/pull/reference.ts';
import type { ModelRecord } from '../../../src/protocol/records.ts';
import { rejection } from '../../support/errors.ts';
import { sha256, type BytesRequest } from './fake-hub.ts';
import { full, KIB, modelOf, NEVER, pullSuite, type PullContext } from './pull-support.ts';

const test = pullSuite('url-source');

const CONTENT = modelOf(10 * KIB);

async function pullUrl({ hub, puller, settings }: PullContext): Promise<ModelRecord> {
  hub.add('acme/a', 'model.gguf', CONTENT);
  const reference = full(parseReference(`${hub.storeOrigin}/acme/a/model.gguf?signature=secret`, sha256(CONTENT)));
  for await (const event of puller.pull(reference, [], settings, NEVER)) {
    if (event.type === 'pulled') return event.model;
  }
  throw new Error('the pull ended early');
}

test('only GET is needed: the signature of a link may cover the method', async (context) => {
  context.hub.onBytes = ({ req, res }) => {
    if (req.method === 'GET') return false;
    res.writeHead(403).end();
    return true;
  };
  assert.equal(await readFile((await pullUrl(context)).path), CONTENT);
});

test('a server may have no ranges', async (context) => {
  const { hub } = context;
  hub.onBytes = async (request) => {
    delete request.req.headers.range;
    await hub.send({ ...request, from: 0, to: CONTENT.length });
    return true;
  };
  assert.equal(await readFile((await pullUrl(context)).path), CONTENT);
});

test('a server that does not report the size is refused, and so is an empty file', async (context) => {
  const answers: ((request: BytesRequest) => unknown)[] = [
    ({ res }) => res.writeHead(200, { 'transfer-encoding': 'chunked' }).end(CONTENT),
    ({ res }) => res.writeHead(206, { 'content-range': 'bytes 0-0/*' }).end('G'),
    ({ res }) => res.writeHead(206).end('G'),
    ({ res }) => res.writeHead(200, { 'content-length': '0' }).end(),
  ];
  for (const answer of answers) {
    context.hub.onBytes = (request) => {
      answer(request);
      return true;
    };
    await rejection(() => pullUrl(context), 'DOWNLOAD_FAILED', /does not report the size of the file/);
  }
});

test('a missing file is reported without the query of its URL', async (context) => {
  context.hub.onBytes = ({ res }) => {
    res.writeHead(404).end();
    return true;
  };
  const { message } = await rejection(() => pullUrl(context), 'MODEL_NOT_FOUND', /there is no file at .*model\.gguf$/);
  assert.not.match(message, /secret/);
});

test.run();

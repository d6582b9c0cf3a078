/** `/v1/runtime/*` over TCP: the lines of an answer, errors, heartbeats, and what a caller may not do or see. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../src/protocol/errors.ts';
import { HTTP_ROUTES } from '../../src/protocol/routes.ts';
import { waitFor } from '../support/wait.ts';
import { ask, open, type Answer } from './ask.ts';
import {
  aborted,
  hello,
  measured,
  scored,
  START,
  startScripted,
  text,
  TINY,
  type ScriptedListener,
} from './scripted.ts';

const { runtimeGenerate, runtimeEmbed, runtimeRerank, runtimeModels } = HTTP_ROUTES;
const BODIES = {
  [runtimeGenerate]: { messages: [{ role: 'user', content: 'hi' }] },
  [runtimeEmbed]: { input: ['a', [1, 2]] },
  [runtimeRerank]: { query: 'a', documents: ['b', 'longer'] },
} as const;
const ROUTES = Object.keys(BODIES) as (keyof typeof BODIES)[];
const HEARTBEAT_MS = 30;

let listener: ScriptedListener;
test.before(async () => {
  listener = await startScripted({ limits: { heartbeatMs: HEARTBEAT_MS } });
});
test.after(() => listener.stop());
test.before.each(() => {
  Object.assign(listener.backend, { script: hello, embedScript: measured, rerankScript: scored });
  Object.assign(listener.world, { admits: 'local', key: 'app' });
});

const post = (path: string, body: object): Promise<Answer> => ask({ port: listener.port }, path, { body });

function linesOf({ text: body }: Answer): Record<string, unknown>[] {
  const lines = body.split('\n').filter((line) => line !== '');
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
}

test('each event is a line, from the route to the finish', async () => {
  for (const path of ROUTES) {
    const answer = await post(path, BODIES[path]);
    assert.equal([answer.status, answer.headers['content-type']], [200, 'application/x-ndjson; charset=utf-8']);
    const lines = linesOf(answer);
    assert.equal([lines[0]?.['type'], lines[0]?.['trace_id']], ['route', answer.headers['x-request-id']]);
    assert.equal([lines[1]?.['type'], lines.at(-1)?.['type']], ['start', 'finish'], path);
  }
});

test('a vector is a line of base64', async () => {
  const lines = linesOf(await post(runtimeEmbed, BODIES[runtimeEmbed]));
  const vectors = lines.flatMap(({ type, vectors: each }) => (type === 'vectors' ? [each as string[]] : []));
  assert.equal(
    vectors.map(([each = '', ...rest]) => [Buffer.from(each, 'base64').readFloatLE(0), rest.length]),
    [
      [1, 0],
      [2, 0],
    ],
  );
});

test('unknown fields are ignored, null is as absent, and an invalid field is named', async () => {
  for (const path of ROUTES) {
    assert.is((await post(path, { ...BODIES[path], model: null, nonsense: 1 })).status, 200, path);
    const wrong = await post(path, { ...BODIES[path], timeout_ms: 'soon' });
    assert.equal(
      [wrong.status, wrong.json().error.code, wrong.json().error.param],
      [400, 'INVALID_REQUEST', 'timeout_ms'],
    );
    assert.is((await post(path, [BODIES[path]])).status, 400);
    assert.is((await ask({ port: listener.port }, path, { body: 'x' })).json().error.code, 'INVALID_REQUEST');
    assert.is((await ask({ port: listener.port }, path)).headers['allow'], 'POST');
  }
});

test('over TCP a model is never a file', async () => {
  for (const path of ROUTES) {
    const answer = await post(path, { ...BODIES[path], model: 'file:/etc/passwd' });
    assert.equal([answer.status, answer.json().error.code], [404, 'MODEL_NOT_FOUND'], path);
  }
});

test('a caller without a key gets nothing, and one of scope local no provider', async () => {
  for (const path of ROUTES)
    assert.is((await post(path, { ...BODIES[path], route: 'cloud' })).json().error.code, 'FORBIDDEN', path);
  listener.world.admits = null;
  for (const path of ROUTES) assert.is((await post(path, BODIES[path])).json().error.code, 'UNAUTHORIZED', path);
  assert.is((await ask({ port: listener.port }, runtimeModels)).status, 401);
});

test('models: the records that the key may use', async () => {
  const answer = await ask({ port: listener.port }, runtimeModels);
  assert.equal(answer.json(), { models: [TINY] });
});

test('while an answer waits, empty lines keep the connection; a later error is the last line of a cut stream', async () => {
  let go: () => void = () => undefined;
  const waiting = new Promise<void>((resolve) => (go = resolve));
  listener.backend.script = async function* () {
    await waiting;
    yield START;
    yield text('half');
    throw new SvcError('ENGINE_CRASHED', 'gone');
  };
  const response = await open({ port: listener.port }, runtimeGenerate, { body: BODIES[runtimeGenerate] });
  let body = '';
  response.setEncoding('utf8').on('data', (chunk: string) => (body += chunk));
  const closed = new Promise((resolve) => response.once('close', resolve).once('error', () => undefined));
  await waitFor('two heartbeats', () => body.startsWith('\n\n'));
  go();
  await closed;
  assert.not.ok(response.complete);
  const last = JSON.parse(body.trimEnd().split('\n').at(-1) ?? '') as object;
  const id = response.headers['x-request-id'];
  assert.equal(last, { type: 'error', id, error: { code: 'ENGINE_CRASHED', message: 'gone' } });
});

test('closing the connection ends the generation', async () => {
  let ended = false;
  listener.backend.script = async function* (_, { signal }) {
    yield START;
    const reason = await aborted(signal);
    ended = true;
    throw reason;
  };
  const controller = new AbortController();
  const { signal } = controller;
  const response = await open({ port: listener.port }, runtimeGenerate, { body: BODIES[runtimeGenerate], signal });
  response.once('error', () => undefined).resume();
  controller.abort();
  await waitFor('the generation to end', () => ended && listener.router.active === 0);
});

test.run();

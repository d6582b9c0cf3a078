/** HEAD of every GET route: the headers at once and no body, also where the GET streams events without end. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { CONTROL, PUBLIC } from '../../src/daemon/http/routes.ts';
import { HTTP_ROUTES } from '../../src/protocol/routes.ts';
import { PATIENCE_MS } from '../support/wait.ts';
import { ask, open } from './ask.ts';
import { aborted, START, startScripted, text, type ScriptedListener } from './scripted.ts';

let listener: ScriptedListener;
let control: ScriptedListener;
let running: string;
test.before(async () => {
  listener = await startScripted({
    script: async function* (_, { signal }) {
      yield START;
      yield text('Once');
      throw await aborted(signal);
    },
  });
  control = await startScripted({ control: true });
  const made = await ask(listener, HTTP_ROUTES.responses, { body: { input: 'A story', background: true } });
  running = (made.json() as { id: string }).id;
});
test.after(async () => {
  await listener.stop();
  await control.stop();
});

/** The GET routes that stream, with the queries that make them do so. */
const STREAMS: ReadonlyMap<string, string> = new Map([
  [HTTP_ROUTES.runtimeLive, '?interval_ms=100'],
  [HTTP_ROUTES.runtimeLogs, '?follow=1'],
  [HTTP_ROUTES.response, '?stream=true'],
]);
const PARAMS: ReadonlyMap<string, string> = new Map([
  [`${HTTP_ROUTES.readyz}/*`, 'engine'],
  [`${HTTP_ROUTES.models}/*`, 'tiny'],
]);
/** The scripted daemon has no page. */
const ABSENT = new Set<string>([HTTP_ROUTES.consoleFile]);

const headOf = (to: ScriptedListener, path: string): ReturnType<typeof ask> =>
  ask(to, path, { method: 'HEAD', signal: AbortSignal.timeout(PATIENCE_MS) });
/** Without those that differ with each answer, or, by Node, with its method. */
const comparable = ({ headers }: { headers: object }): object => {
  const { date, 'x-request-id': id, 'transfer-encoding': coding, ...same } = headers as Record<string, unknown>;
  return same;
};

for (const { path } of PUBLIC.filter(({ method }) => method === 'GET')) {
  const query = STREAMS.get(path) ?? '';
  test(`HEAD ${path}${query}`, async () => {
    const target = path.replace('*', PARAMS.get(path) ?? running) + query;
    const head = await headOf(listener, target);
    assert.equal([head.status, head.text, head.complete], [ABSENT.has(path) ? 404 : 200, '', true]);
    if (query === '') return;
    const controller = new AbortController();
    const get = await open(listener, target, { signal: controller.signal });
    get.on('error', () => undefined).resume();
    controller.abort();
    assert.equal(comparable(head), comparable(get));
    assert.match(String(head.headers['content-type']), /ndjson|event-stream/);
  });
}

for (const { path } of CONTROL.filter(({ method }) => method === 'GET')) {
  test(`HEAD ${path} on the control socket`, async () => {
    const { status, text: body } = await headOf(control, path);
    assert.equal([status, body], [200, '']);
  });
}

test('the stream of a response that has ended or is unknown', async () => {
  const path = `${HTTP_ROUTES.responses}/${running}`;
  await ask(listener, `${path}/cancel`, { method: 'POST' });
  const ended = await headOf(listener, `${path}?stream=true`);
  assert.equal([ended.status, ended.headers['content-type']], [200, 'text/event-stream; charset=utf-8']);
  assert.is((await headOf(listener, `${HTTP_ROUTES.responses}/resp_${'9'.repeat(32)}?stream=true`)).status, 404);
});

test.run();

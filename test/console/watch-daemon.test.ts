/** Watching a real daemon over HTTP, as the console does: samples, cancelling, the log, doctor, usage and keys. */
import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { DoctorRecord } from '../../src/protocol/doctor.ts';
import type { LiveEvent, LiveSample } from '../../src/protocol/live.ts';
import type { LogEvent } from '../../src/protocol/logs.ts';
import { HTTP_ROUTES } from '../../src/protocol/routes.ts';
import type { UsageRecord } from '../../src/protocol/usage.ts';
import { ask, open, type Answer } from '../http/ask.ts';
import { endServing, serve, type Serving } from '../support/serving.ts';
import { waitFor } from '../support/wait.ts';

const R = HTTP_ROUTES;
/** Generates until it is cancelled: a test model never ends by itself. */
const ENDLESS = {
  model: 'random',
  messages: [{ role: 'user', content: 'hi' }],
  sampling: { seed: 1 },
  max_tokens: 3000,
};

let serving: Serving;
let port: number;
test.before(async () => {
  serving = await serve({ random: 'tiny-llama' });
  port = Number((await serving.daemon.client.status()).http?.split(':').at(-1));
});
test.after(() => endServing(serving));

/** Events of a stream as they come; `stop` closes the connection. */
// eslint-disable-next-line @typescript-eslint/no-unnecessary-type-parameters -- names what the test expects
async function streamed<Event>(
  path: string,
  body?: object,
): Promise<{ id: string; events: Event[]; stop(): void; ended(): boolean }> {
  const controller = new AbortController();
  const res = await open({ port }, path, { signal: controller.signal, ...(body === undefined ? {} : { body }) });
  assert.is(res.statusCode, 200);
  const events: Event[] = [];
  let rest = '';
  let isEnded = false;
  res
    .setEncoding('utf8')
    .on('data', (chunk: string) => {
      const lines = (rest + chunk).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) if (line !== '') events.push(JSON.parse(line) as Event);
    })
    .on('error', () => undefined)
    .on('close', () => (isEnded = true));
  return { id: String(res.headers['x-request-id']), events, stop: () => controller.abort(), ended: () => isEnded };
}

const linesOf = <Event>({ text }: Answer): Event[] =>
  text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Event);

test('samples follow a generation, which is cancelled by its id', async () => {
  const live = await streamed<LiveEvent>(`${R.runtimeLive}?interval_ms=200`);
  const samples = (): LiveSample[] => live.events.filter((event) => event.type === 'sample');
  await waitFor('a sample at once', () => samples().length > 0);
  const answer = await streamed<{ type: string; error?: { code: string } }>(R.runtimeGenerate, ENDLESS);
  const busy = await waitFor('a sample with tokens', () =>
    samples().find(({ requests, engines }) => {
      const engine = engines.find(({ model }) => model === 'random');
      return (requests[0]?.output_tokens ?? 0) > 0 && (engine?.tokens_per_second ?? 0) > 0;
    }),
  );
  const [request] = busy.requests;
  assert.equal(
    [request?.id, request?.kind, request?.model, request?.provider, request?.key, request?.state],
    [answer.id, 'generation', 'random', 'local', null, 'running'],
  );
  assert.equal(busy.queue, { waiting: 0, running: 1 });
  const engine = busy.engines.find(({ model }) => model === 'random');
  assert.ok(
    engine !== undefined && engine.running === 1 && (engine.cache_cells ?? 0) >= (engine.cache_cells_used ?? 0),
  );
  assert.ok((engine.memory_bytes ?? 0) > 1e6 && busy.daemon.memory_bytes > 1e7 && busy.daemon.uptime_s >= 0);
  assert.ok(samples().some(({ engines }) => engines.some(({ ttft_ms }) => ttft_ms !== null && ttft_ms > 0)));

  assert.equal((await ask({ port }, R.runtimeCancel, { body: { id: answer.id } })).json(), {});
  await waitFor('the end of the answer', answer.ended);
  const last = answer.events.at(-1);
  assert.equal([last?.type, last?.error?.code], ['error', 'CANCELLED']);
  await waitFor('a sample without requests', () => samples().at(-1)?.requests.length === 0);
  const again = await ask({ port }, R.runtimeCancel, { body: { id: answer.id } });
  assert.equal([again.status, again.json().error.code, again.json().error.param], [404, 'NOT_FOUND', 'id']);
  live.stop();
});

test('a number of samples ends the stream; HEAD gets headers only; limits are named', async () => {
  const events = linesOf<LiveEvent>(await ask({ port }, `${R.runtimeLive}?interval_ms=100&count=2`));
  assert.equal(
    events.map(({ type }) => type),
    ['sample', 'sample', 'end'],
  );
  for (const path of [R.runtimeLive, `${R.runtimeLogs}?follow=1`]) {
    const head = await ask({ port }, path, { method: 'HEAD' });
    assert.equal([head.status, head.text], [200, ''], path);
    assert.match(String(head.headers['content-type']), /ndjson/);
  }
  for (const [query, param] of [
    [`${R.runtimeLive}?interval_ms=1`, 'interval_ms'],
    [`${R.runtimeLive}?interval_ms=x`, 'interval_ms'],
    [`${R.runtimeLogs}?tail=10001`, 'tail'],
    [`${R.runtimeLogs}?level=loud`, 'level'],
    [`${R.runtimeUsage}?days=0`, 'days'],
  ] as const) {
    const { status, json } = await ask({ port }, query);
    assert.equal([status, json().error.param], [400, param], query);
  }
});

test('the log is followed, and filtered by request', async () => {
  const followed = await streamed<LogEvent>(`${R.runtimeLogs}?tail=1&follow=1`);
  const refused = await ask({ port }, R.chatCompletions, { body: { messages: 7 } });
  const id = refused.headers['x-request-id'];
  const isOf = (event: LogEvent): boolean => event.type === 'record' && event.record['id'] === id;
  await waitFor('the record', () => followed.events.some(isOf));
  followed.stop();

  const found = linesOf<LogEvent>(await ask({ port }, `${R.runtimeLogs}?request=${String(id)}`));
  assert.is(found.length, 2);
  assert.ok(found[0] !== undefined && isOf(found[0]));
  assert.equal(found[1], { type: 'end' });
  const warned = linesOf<LogEvent>(await ask({ port }, `${R.runtimeLogs}?level=warn&tail=10000`));
  assert.ok(warned.every((event) => event.type === 'end' || ['warn', 'error', 'fatal'].includes(event.record.level)));
});

test('of a long log only what is asked for is sent', async () => {
  const line = (n: number): string =>
    `${JSON.stringify({ level: 'info', time: '2026-11-01T00:00:00.000Z', id: `r${String(n)}`, msg: 'x'.repeat(200) })}\n`;
  appendFileSync(
    join(serving.home.dir, 'state', 'daemon.log'),
    Array.from({ length: 20_000 }, (_, n) => line(n)).join(''),
  );
  for (const [tail, length] of [
    ['', 500],
    ['?tail=10000', 10_000],
    ['?tail=0', 0],
  ] as const) {
    const events = linesOf<LogEvent>(await ask({ port }, R.runtimeLogs + tail));
    assert.is(events.length, length + 1, tail);
  }
  const [first, end] = linesOf<LogEvent>(await ask({ port }, `${R.runtimeLogs}?request=r7`));
  assert.ok(first?.type === 'record' && first.record['id'] === 'r7');
  assert.is(end?.type, 'end');
});

test('doctor runs once for all who ask', async () => {
  const [one, other] = await Promise.all([ask({ port }, R.runtimeDoctor), ask({ port }, R.runtimeDoctor)]);
  const { checks } = one.json() as DoctorRecord;
  assert.is(one.status, 200);
  assert.ok(checks.some(({ name, status }) => name === 'daemon' && status === 'ok'));
  assert.is(one.text, other.text);
});

test('usage is that of the ledger', async () => {
  const usage = async (query = ''): Promise<UsageRecord[]> => {
    const answer = await ask({ port }, R.runtimeUsage + query);
    return (answer.json() as { usage: UsageRecord[] }).usage;
  };
  await ask({ port }, R.chatCompletions, { body: { model: 'random', messages: ENDLESS.messages, max_tokens: 2 } });
  const row = await waitFor('the row', async () => (await usage()).find(({ model }) => model === 'random'));
  assert.ok(row.requests > 0 && row.provider === 'local' && !('key' in row));
  assert.is((await usage('?days=1&by=key')).find(({ model }) => model === 'random')?.key, null);
});

test('keys are made and removed by who has one, or the session of a link', async () => {
  assert.equal((await ask({ port }, R.runtimeKeys)).json(), { keys: [] });
  const without = await ask({ port }, R.runtimeKeys, { body: { name: 'app' } });
  assert.equal([without.status, without.json().error.code], [401, 'UNAUTHORIZED']);
  assert.match(without.json().error.hint, /svc open/);

  const { url } = await serving.daemon.client.consoleLink(false);
  const token = new URL(url).hash.replace('#signin=', '');
  const { key: session } = (await ask({ port }, R.signIn, { body: { token } })).json();
  const headers = { authorization: `Bearer ${String(session)}` };
  const made = await ask({ port }, R.runtimeKeys, { headers, body: { name: 'app', models: ['random'], scope: null } });
  assert.is(made.headers['cache-control'], 'no-store');
  const { key, created_at, ...shown } = made.json();
  assert.equal(shown, {
    name: 'app',
    scope: 'inference',
    models: ['random'],
    tokens_per_day: null,
    tokens_per_month: null,
    expires_at: null,
  });
  const listed = await ask({ port }, R.runtimeKeys, { headers });
  assert.equal(listed.json(), { keys: [{ ...shown, created_at }] });
  assert.not.ok(listed.text.includes(key));
  const models = (as: string): Promise<Answer> => ask({ port }, R.models, { headers: { 'x-api-key': as } });
  assert.equal([(await models(key)).status, (await ask({ port }, R.models)).status], [200, 401]);

  for (const [body, param] of [
    [{ name: 'app 2' }, undefined],
    [{ name: 'app' }, undefined],
    [{ name: 'console' }, undefined],
    [{ name: 'x', scope: 'all' }, 'scope'],
    [{ name: 'x', expires_at: '2020-01-01T00:00:00Z' }, 'expires_at'],
    [{ name: 'x', tokens_per_day: 0 }, 'tokens_per_day'],
  ] as const) {
    const refused = await ask({ port }, R.runtimeKeys, { headers, body });
    assert.equal([refused.status, refused.json().error.param], [400, param], JSON.stringify(body));
  }
  assert.equal((await ask({ port }, R.runtimeKeysRemove, { headers, body: { name: 'app' } })).json(), {});
  assert.is((await ask({ port }, R.runtimeKeysRemove, { headers, body: { name: 'app' } })).status, 404);
  assert.is((await models(key)).status, 200, 'without keys this machine needs none');
});

test('a stream ends with the daemon', async () => {
  const live = await streamed<LiveEvent | { type: 'error'; error: { code: string } }>(R.runtimeLive);
  const followed = await streamed<LogEvent>(`${R.runtimeLogs}?follow=1`);
  await waitFor('both', () => live.events.length > 0 && followed.events.length > 0);
  await serving.daemon.client.stop(10_000);
  await waitFor('their ends', () => live.ended() && followed.ended());
  const last = live.events.at(-1);
  assert.ok(last?.type === 'error' && last.error.code === 'NOT_READY');
  // A signal at the end of the process would end it before it has an exit code.
  await serving.daemon.exit;
});

test.run();

/**
 * Traces of a real daemon: what the collector gets of requests over HTTP and gRPC to the built-in model and to a
 * provider, the trace context on its way, and a collector that fails.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Metadata } from '@grpc/grpc-js';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { HTTP_ROUTES } from '../../src/protocol/routes.ts';
import { openAiVectors } from '../backends/cloud/embedding-support.ts';
import { startUpstream, type Upstream } from '../backends/cloud/upstream.ts';
import { connectTo, definitions, failureOf } from '../grpc/scripted.ts';
import { read } from '../architecture/source-files.ts';
import { ask } from '../http/ask.ts';
import { spawnDaemon, type DaemonProcess } from '../support/daemon.ts';
import { makeHome, type Home } from '../support/home.ts';
import { waitFor } from '../support/wait.ts';
import { startCollector, type CollectorServer, type SeenSpan } from './collector.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e473';
const PARENT = '00f067aa0ba902b7';
const SECRET = 'collector-secret-4711';
const CHAT = HTTP_ROUTES.chatCompletions;
const HELLO = { messages: [{ role: 'user', content: 'Hello' }], max_tokens: 8 };

interface Context {
  home: Home;
  collector: CollectorServer;
  upstream: Upstream;
  daemon: DaemonProcess;
  port: number;
  grpc: string;
}
const test = suite<Context>('traces of a daemon');
test.before(async (context) => {
  context.home = await makeHome();
  context.collector = await startCollector();
  context.upstream = await startUpstream();
  const dir = join(context.home.dir, 'config');
  mkdirSync(dir, { recursive: true });
  const headersFile = join(dir, 'trace-headers.json');
  writeFileSync(headersFile, JSON.stringify({ 'x-collector-key': SECRET }), { mode: 0o600 });
  const one = { kind: 'openai_compatible', base_url: `${context.upstream.url}/v1`, default_model: 'm' };
  const many = { ...one, base_url: [`${context.upstream.url}/v1`, 'http://127.0.0.1:9/v1'] };
  const traces = { endpoint: context.collector.url, headers_file: headersFile };
  writeFileSync(join(dir, 'config.json'), JSON.stringify({ traces, providers: { mine: one, many } }));
  const env = { SVC_LOG_LEVEL: 'debug', OTEL_SERVICE_NAME: 'svc-under-test' };
  context.daemon = await spawnDaemon(context.home, { env }).settled();
  const { http, grpc } = await context.daemon.client.status();
  context.port = Number(http?.split(':').at(-1));
  context.grpc = grpc ?? '';
});
test.after(async ({ home, collector, upstream, daemon }) => {
  daemon.kill('SIGKILL');
  await daemon.exit;
  await collector.close();
  await upstream.close();
  await home.remove();
});
test.before.each(({ collector }) => {
  collector.answer = null;
});

/** A trace of its own for each test. */
function traceId(digit: string): string {
  return TRACE + digit;
}
function headersOf(trace: string, flags = '01'): Record<string, string> {
  return { traceparent: `00-${trace}-${PARENT}-${flags}`, tracestate: 'other=1' };
}
function answering(upstream: Upstream): void {
  upstream.script(async (turn) => {
    await turn.event({ model: 'm-2026', choices: [{ index: 0, delta: { content: 'Hi' }, finish_reason: 'stop' }] });
    await turn.event({ choices: [], usage: { prompt_tokens: 5, completion_tokens: 1 } });
    await turn.event('[DONE]');
    turn.end();
  });
}
async function serverSpan(collector: CollectorServer, trace: string): Promise<SeenSpan> {
  return await collector.span('the server span', ({ kind, traceId: id }) => kind === 2 && id === trace);
}
function childrenOf(collector: CollectorServer, { spanId }: SeenSpan): SeenSpan[] {
  return collector.spans.filter(({ parentSpanId }) => parentSpanId === spanId);
}

test('a chat over HTTP: a server span with its facts, and the phases of the engine', async ({
  collector,
  port,
  daemon,
}) => {
  const trace = traceId('1');
  const body = { ...HELLO, temperature: 0.5, seed: 7 };
  const answer = await ask({ port }, CHAT, { body, headers: headersOf(trace) });
  const { usage } = answer.json();
  const span = await serverSpan(collector, trace);
  assert.is(span.name, 'chat builtin');
  assert.equal([span.parentSpanId, span.traceState, span.status], [PARENT, 'other=1', {}]);
  const { 'svc.request.id': id, 'server.port': serverPort, ...facts } = span.attributes;
  assert.equal([id, serverPort], [answer.headers['x-request-id'], port]);
  assert.equal(facts, {
    'http.request.method': 'POST',
    'http.route': CHAT,
    'http.response.status_code': 200,
    'url.scheme': 'http',
    'server.address': '127.0.0.1',
    'svc.route.attempts': 1,
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': 'svc',
    'gen_ai.request.model': 'builtin',
    'gen_ai.response.model': 'builtin',
    'gen_ai.request.max_tokens': 8,
    'gen_ai.request.temperature': 0.5,
    'gen_ai.request.seed': 7,
    'gen_ai.response.finish_reasons': ['length'],
    'gen_ai.usage.input_tokens': usage.prompt_tokens,
    'gen_ai.usage.output_tokens': usage.completion_tokens,
  });
  const [engine] = childrenOf(collector, span);
  assert.equal([engine?.name, engine?.kind], ['engine', 1]);
  const phases = childrenOf(collector, engine!);
  assert.equal(
    phases.map(({ name }) => name),
    ['queue', 'prompt', 'generation'],
  );
  const times = phases.flatMap((phase) => [phase.startTimeUnixNano, phase.endTimeUnixNano]);
  assert.equal([...times].sort(), times, 'one after the other');
  assert.ok(span.startTimeUnixNano <= times[0]! && times.at(-1)! <= span.endTimeUnixNano);

  const resource = collector.resources.at(-1)!;
  assert.equal([resource['service.name'], resource['process.pid']], ['svc-under-test', daemon.pid]);
  const exported = collector.asked.at(-1)!;
  assert.equal([exported.path, exported.headers['x-collector-key']], ['/v1/traces', SECRET]);
  const line = await waitFor('the line', () => daemon.log.find((each) => each['trace_id'] === trace));
  assert.is(line['id'], id);
});

test('the choices of a request are added up, and a stream is traced as well', async ({ collector, port }) => {
  const trace = traceId('2');
  const body = { ...HELLO, n: 2, stream: true };
  assert.is((await ask({ port }, CHAT, { body, headers: headersOf(trace) })).status, 200);
  const span = await serverSpan(collector, trace);
  assert.equal(span.attributes['gen_ai.response.finish_reasons'].length, 2);
  assert.is(span.attributes['gen_ai.usage.output_tokens'], 16);
  assert.is(childrenOf(collector, span).length, 2);
});

test('a call over gRPC', async ({ collector, grpc }) => {
  const trace = traceId('3');
  const { client, close } = connectTo(grpc);
  const { path, requestSerialize, responseDeserialize } = definitions.service('svc.v1.Inference')['Generate']!;
  const metadata = new Metadata();
  for (const [name, value] of Object.entries(headersOf(trace))) metadata.set(name, value);
  const send = (request: object) =>
    client.makeServerStreamRequest(path, requestSerialize, responseDeserialize, request, metadata);
  let seen = '';
  for await (const event of send(HELLO) as AsyncIterable<any>) seen ||= event.route?.trace_id ?? '';
  assert.is(seen, trace, 'in the route event');
  const span = await serverSpan(collector, trace);
  assert.equal([span.name, span.parentSpanId], ['chat builtin', PARENT]);
  assert.is(span.attributes['rpc.method'], 'svc.v1.Inference/Generate');
  assert.is(span.attributes['rpc.response.status_code'], 'OK');
  const wrong = { ...HELLO, model: 'nothing' };
  metadata.set('traceparent', `00-${traceId('4')}-${PARENT}-01`);
  await failureOf(send(wrong));
  close();
  const failed = await serverSpan(collector, traceId('4'));
  assert.equal([failed.attributes['error.type'], failed.status], ['MODEL_NOT_FOUND', {}]);
});

/** `traceparent` and `tracestate` of what the provider was asked in a trace; it is asked for other things meanwhile. */
function sentIn(upstream: Upstream, trace: string): (string | string[] | undefined)[][] {
  return upstream.asked
    .map(({ headers }) => [headers['traceparent'], headers['tracestate']])
    .filter(([parent]) => String(parent).includes(trace));
}

test('a provider gets the trace context; each attempt has a span', async ({ collector, upstream, port }) => {
  const trace = traceId('5');
  answering(upstream);
  const body = { ...HELLO, route: 'provider:mine' };
  assert.is((await ask({ port }, CHAT, { body, headers: headersOf(trace) })).status, 200);
  const span = await serverSpan(collector, trace);
  assert.equal([span.name, span.attributes['gen_ai.response.model']], ['chat m-2026', 'm-2026']);
  const [attempt] = childrenOf(collector, span);
  assert.equal([attempt?.name, attempt?.kind, attempt?.status], ['chat m', 3, {}]);
  const { 'server.port': serverPort, ...facts } = attempt!.attributes;
  assert.is(serverPort, Number(new URL(upstream.url).port));
  assert.equal(facts, {
    'http.request.method': 'POST',
    'http.response.status_code': 200,
    'server.address': '127.0.0.1',
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': 'mine',
    'gen_ai.request.model': 'm',
    'gen_ai.response.model': 'm-2026',
    'gen_ai.request.max_tokens': 8,
    'gen_ai.response.finish_reasons': ['stop'],
    'gen_ai.usage.input_tokens': 5,
    'gen_ai.usage.output_tokens': 1,
  });
  assert.equal(sentIn(upstream, trace), [[`00-${trace}-${attempt!.spanId}-01`, 'other=1']]);
});

test('embeddings of a provider: a server span, and one for each request to it', async ({
  collector,
  upstream,
  port,
}) => {
  const trace = traceId('a');
  upstream.script(openAiVectors);
  const body = { model: 'm', route: 'provider:mine', input: ['a', 'bc'] };
  assert.is((await ask({ port }, HTTP_ROUTES.embeddings, { body, headers: headersOf(trace) })).status, 200);
  const span = await serverSpan(collector, trace);
  const [attempt, ...others] = childrenOf(collector, span);
  assert.equal(others, []);
  for (const each of [span, attempt!]) {
    assert.is(each.name, 'embeddings m');
    const { attributes } = each;
    assert.equal(
      [
        attributes['gen_ai.operation.name'],
        attributes['gen_ai.response.model'],
        attributes['gen_ai.usage.input_tokens'],
      ],
      ['embeddings', 'm-2026', 3],
    );
  }
  assert.is(attempt?.kind, 3);
  assert.is(sentIn(upstream, trace).length, 1);
});

test('retries and endpoints of a cluster are attempts of their own', async ({ collector, upstream, port }) => {
  const trace = traceId('6');
  const before = upstream.asked.length;
  upstream.script((turn) => turn.json(400, { error: { message: 'no' } }));
  const body = { ...HELLO, route: 'provider:mine' };
  assert.is((await ask({ port }, CHAT, { body, headers: headersOf(trace) })).status, 400);
  const span = await serverSpan(collector, trace);
  assert.equal([span.attributes['error.type'], span.status], ['INVALID_REQUEST', {}], "the client's own error");
  const [attempt] = childrenOf(collector, span);
  assert.equal([attempt?.attributes['http.response.status_code'], attempt?.status], [400, { code: 2 }]);

  const clustered = traceId('7');
  answering(upstream);
  const again = { ...HELLO, route: 'provider:many' };
  assert.is((await ask({ port }, CHAT, { body: again, headers: headersOf(clustered) })).status, 200);
  const attempts = childrenOf(collector, await serverSpan(collector, clustered));
  assert.ok(attempts.some(({ name }) => name === 'chat m'));
  const sent = upstream.asked.slice(before).map(({ headers }) => headers['traceparent'] ?? '');
  assert.ok(sent.some((header) => attempts.some(({ spanId }) => header === `00-${clustered}-${spanId}-01`)));
});

test('what is not sampled, and what only reads, is not exported; its context is passed on', async (context) => {
  const { collector, upstream, port } = context;
  const [quiet, last] = [traceId('8'), traceId('9')];
  answering(upstream);
  const before = upstream.asked.length;
  const body = { ...HELLO, route: 'provider:mine' };
  await ask({ port }, CHAT, { body, headers: headersOf(quiet, '00') });
  assert.is(sentIn(upstream, quiet)[0]?.[0], `00-${quiet}-${PARENT}-00`);
  await ask({ port }, '/v1/models', { headers: headersOf(quiet) });
  await ask({ port }, CHAT, { body, headers: { traceparent: 'nonsense', tracestate: 'a=1' } });
  // The daemon may ask the provider for other things meanwhile, which belong to no trace.
  const sent = upstream.asked.slice(before).map(({ headers }) => [headers['traceparent'], headers['tracestate']]);
  const [traceparent, tracestate] = sent.find(([parent]) => parent !== undefined && !parent.includes(quiet)) ?? [];
  assert.match(String(traceparent), /^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/, JSON.stringify(sent));
  assert.is(tracestate, undefined);
  await ask({ port }, CHAT, { body: { messages: 7 }, headers: headersOf(last) });
  const span = await serverSpan(collector, last);
  assert.equal([span.name, span.attributes['error.type']], [`POST ${CHAT}`, 'INVALID_REQUEST']);
  assert.is(collector.spans.filter(({ traceId: id }) => id === quiet).length, 0);
  assert.equal(collector.problems, []);
});

test('docs/traces.md names every attribute and every span', ({ collector }) => {
  const text = read('docs/traces.md');
  for (const { name, attributes } of collector.spans) {
    const shown = name.replace(/ (builtin|m|m-2026)$/, ' MODEL').replace(CHAT, '/api/pull');
    for (const each of [shown, ...Object.keys(attributes)]) assert.ok(text.includes(`\`${each}\``), each);
  }
});

test('a collector that fails or is silent harms no request, and is logged once', async ({
  collector,
  port,
  daemon,
}) => {
  const count = async (name: string): Promise<number> => {
    const { text } = await ask({ port }, '/metrics');
    return Number(new RegExp(`^svc_trace_spans_${name}_total (\\d+)$`, 'm').exec(text)?.[1]);
  };
  const dropped = await count('dropped');
  collector.answer = (res) => void res.writeHead(400).end();
  assert.is((await ask({ port }, CHAT, { body: HELLO })).status, 200);
  await waitFor('the count', async () => (await count('dropped')) > dropped);
  collector.answer = () => undefined;
  const asked = collector.asked.length;
  assert.is((await ask({ port }, CHAT, { body: HELLO })).status, 200);
  await waitFor('the export', () => collector.asked.length > asked);
  assert.is((await ask({ port }, CHAT, { body: HELLO })).status, 200);
  const told = () => daemon.log.filter(({ msg }) => msg === 'traces cannot be exported');
  assert.equal(
    told().map((line) => [line['reason'], line['collector']]),
    [['status 400', collector.url]],
  );
  assert.ok((await count('exported')) > 0);
});

test('the daemon ends in time although its collector is silent', async ({ collector, daemon }) => {
  collector.answer = () => undefined;
  daemon.kill('SIGTERM');
  assert.is((await daemon.exit).code, 0);
  assert.not.ok(JSON.stringify(daemon.log).includes(SECRET));
});

test.run();

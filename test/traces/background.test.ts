/** Traces of background responses: joined to the request that created them, in the next daemon as well. */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { HTTP_ROUTES } from '../../src/protocol/routes.ts';
import { read } from '../architecture/source-files.ts';
import { startUpstream, type Upstream } from '../backends/cloud/upstream.ts';
import { ask } from '../http/ask.ts';
import { assertExit } from '../support/exit.ts';
import { spawnDaemon, type DaemonProcess } from '../support/daemon.ts';
import { holdEngines, type Held } from '../support/hold.ts';
import { configure, makeHome, type Home } from '../support/home.ts';
import { modelPath } from '../support/native-engine.ts';
import { svc } from '../support/svc.ts';
import { waitFor } from '../support/wait.ts';
import { startCollector, type CollectorServer, type SeenSpan } from './collector.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e473';
const PARENT = '00f067aa0ba902b7';
const { responses: PATH } = HTTP_ROUTES;
const SHORT = { model: 'plain', input: 'Tell me about llamas.', background: true, max_output_tokens: 8, seed: 7 };
/** More than an engine computes in the moment before it is stopped; where a test needs longer, it holds the engine. */
const LONG = { ...SHORT, max_output_tokens: 3000, temperature: 1 };

interface Context {
  home: Home;
  collector: CollectorServer;
  upstream: Upstream;
  daemon: DaemonProcess;
  port: number;
}
const test = suite<Context>('traces of background responses');
test.before(async (context) => {
  context.home = await makeHome();
  context.collector = await startCollector();
  context.upstream = await startUpstream();
  const { home, collector, upstream } = context;
  assertExit(await svc(['model', 'add', modelPath('tiny-llama'), '--name', 'plain'], { home }), 0);
  const mine = { kind: 'openai_compatible', base_url: `${upstream.url}/v1`, default_model: 'm' };
  const config = { traces: { endpoint: collector.url }, providers: { mine } };
  configure(home, config);
  await start(context);
});
test.after(async ({ home, collector, upstream, daemon }) => {
  daemon.kill('SIGKILL');
  await daemon.exit;
  await collector.close();
  await upstream.close();
  await home.remove();
});

async function start(context: Context): Promise<void> {
  context.daemon = await spawnDaemon(context.home).settled();
  context.port = Number((await context.daemon.client.status()).http?.split(':').at(-1));
}

async function create({ port }: Context, trace: string, body: object, flags = '01'): Promise<string> {
  const headers = { traceparent: `00-${trace}-${PARENT}-${flags}`, tracestate: 'other=1' };
  const answer = await ask({ port }, PATH, { body, headers });
  assert.is(answer.status, 200, answer.text);
  return answer.json().id as string;
}

/** Waits until the response has text, then stops its engine: the response stays in progress. */
async function heldInProgress({ port, daemon }: Context, id: string): Promise<Held> {
  await waitFor('the first text', async () => {
    const { output } = (await ask({ port }, `${PATH}/${id}`)).json();
    return output.length > 0;
  });
  return await holdEngines(daemon.client);
}

/** The span of the request that created a response, and those of the daemons that worked on it. */
async function spansOf(
  { collector }: Context,
  trace: string,
  count: number,
): Promise<{ created: SeenSpan; runs: SeenSpan[] }> {
  const created = await collector.span('the server span', ({ kind, traceId }) => kind === 2 && traceId === trace);
  const below = (): SeenSpan[] => collector.spans.filter(({ parentSpanId }) => parentSpanId === created.spanId);
  await waitFor('the spans below', () => below().length >= count);
  return { created, runs: below() };
}

test('a span below that of the request, with the facts of the answer', async (context) => {
  const trace = `${TRACE}1`;
  const id = await create(context, trace, SHORT);
  const { created, runs } = await spansOf(context, trace, 1);
  assert.equal([created.name, created.parentSpanId], [`POST ${PATH}`, PARENT]);
  const [run, ...others] = runs;
  assert.equal(others, []);
  assert.equal([run?.name, run?.kind, run?.traceState, run?.status], ['chat plain', 1, 'other=1', {}]);
  const { usage } = (await ask({ port: context.port }, `${PATH}/${id}`)).json();
  assert.equal(run?.attributes, {
    'svc.request.id': created.attributes['svc.request.id'],
    'svc.route.attempts': 1,
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': 'svc',
    'gen_ai.request.model': 'plain',
    'gen_ai.request.max_tokens': 8,
    'gen_ai.request.seed': 7,
    'gen_ai.response.id': id,
    'gen_ai.response.model': 'plain',
    'gen_ai.response.finish_reasons': ['length'],
    'gen_ai.usage.input_tokens': usage.input_tokens,
    'gen_ai.usage.output_tokens': 8,
  });
  const engine = context.collector.spans.find(({ parentSpanId }) => parentSpanId === run?.spanId);
  assert.is(engine?.name, 'engine');
});

test('after a kill of the daemon, one for the rest', async (context) => {
  const trace = `${TRACE}2`;
  const held = await heldInProgress(context, await create(context, trace, LONG));
  await spansOf(context, trace, 0);
  context.daemon.kill('SIGKILL');
  await context.daemon.exit;
  held.release();
  await start(context);
  const [run, ...others] = (await spansOf(context, trace, 1)).runs;
  assert.equal([run?.name, run?.status, others], ['chat plain', {}, []]);
  const { attributes = {} } = run ?? {};
  assert.equal(
    [attributes['svc.response.resumed'], attributes['gen_ai.usage.output_tokens']],
    [true, LONG.max_output_tokens],
  );
});

test('after a stop in order, one for each daemon', async (context) => {
  const trace = `${TRACE}3`;
  const held = await heldInProgress(context, await create(context, trace, LONG));
  context.daemon.kill('SIGTERM');
  assert.is((await context.daemon.exit).code, 0);
  held.release();
  await start(context);
  const { runs } = await spansOf(context, trace, 2);
  assert.equal(
    runs.map(({ attributes, status }) => [attributes['svc.response.resumed'], attributes['error.type'], status]),
    [
      [undefined, 'NOT_READY', {}],
      [true, undefined, {}],
    ],
  );
});

test('a cancelled one and a failed one have the error', async (context) => {
  const [cancelled, failed] = [`${TRACE}4`, `${TRACE}5`];
  const id = await create(context, cancelled, LONG);
  const held = await heldInProgress(context, id);
  const { port } = context;
  assert.is((await ask({ port }, `${PATH}/${id}/cancel`, { method: 'POST' })).status, 200);
  held.release();
  await create(context, failed, { ...SHORT, model: 'nothing' });
  for (const [trace, error] of [
    [cancelled, 'CANCELLED'],
    [failed, 'MODEL_NOT_FOUND'],
  ] as const) {
    const [run] = (await spansOf(context, trace, 1)).runs;
    assert.equal([run?.attributes['error.type'], run?.status], [error, {}]);
  }
});

test('a provider gets the context, also of a trace that is not recorded', async (context) => {
  const { upstream, collector } = context;
  upstream.script(async (turn) => {
    await turn.event({ choices: [{ index: 0, delta: { content: 'Hi' }, finish_reason: 'stop' }] });
    await turn.event('[DONE]');
    turn.end();
  });
  const body = { ...SHORT, model: 'm', route: 'provider:mine' };
  const [trace, quiet] = [`${TRACE}6`, `${TRACE}7`];
  await create(context, trace, body);
  const [run] = (await spansOf(context, trace, 1)).runs;
  const attempt = collector.spans.find(({ parentSpanId }) => parentSpanId === run?.spanId);
  assert.equal([attempt?.name, attempt?.kind], ['chat m', 3]);
  const sent = (): string[] => upstream.asked.map(({ headers }) => String(headers['traceparent']));
  assert.ok(sent().includes(`00-${trace}-${String(attempt?.spanId)}-01`));
  await create(context, quiet, body, '00');
  await waitFor('the request', () => sent().includes(`00-${quiet}-${PARENT}-00`));
  assert.equal([collector.spans.filter(({ traceId }) => traceId === quiet), collector.problems], [[], []]);
});

test('docs/traces.md names every attribute', ({ collector }) => {
  const text = read('docs/traces.md');
  for (const name of collector.spans.flatMap(({ attributes }) => Object.keys(attributes)))
    assert.ok(text.includes(`\`${name}\``), name);
});

test.run();

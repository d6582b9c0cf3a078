/** The real daemon over gRPC: health records, generation with a real engine, shutdown. */
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { connect as connectHttp2 } from 'node:http2';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { status, type ClientReadableStream } from '@grpc/grpc-js';
import { service as healthService } from 'grpc-health-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { probeGrpcHealth } from '../../src/client/grpc-health.ts';
import { probeHttpHealth } from '../../src/client/http-probe.ts';
import type { HealthRecord } from '../../src/protocol/records.ts';
import { CONTROL_ROUTES } from '../../src/protocol/routes.ts';
import { ask } from '../http/ask.ts';
import { assertExit } from '../support/exit.ts';
import { spawnDaemon, type DaemonProcess } from '../support/daemon.ts';
import { enginePid, hold, LONG_ANSWER_TOKENS, LONG_CONTEXT } from '../support/hold.ts';
import { configure, makeHome, type Home } from '../support/home.ts';
import { spawnSvc, svc } from '../support/svc.ts';
import { startStopwatch, type Stopwatch } from '../support/stopwatch.ts';
import { waitFor } from '../support/wait.ts';
import { connectTo, definitions, failureOf, type TestClient } from './scripted.ts';

let home: Home;
let daemon: DaemonProcess;
let client: TestClient;

test.before(async () => {
  home = await makeHome();
  configure(home, LONG_CONTEXT);
  daemon = await spawnDaemon(home).settled();
  client = connectTo(await grpcAddress());
});
test.after(async () => {
  client.close();
  daemon.kill('SIGKILL');
  await daemon.exit;
  await home.remove();
});

const messages = [{ role: 'user', content: 'Tell me about llamas, please.' }];
/** The bias forces the same token, so the answer does not end before its context is full. */
const ENDLESS = { messages, sampling: { logit_bias: [{ token: 100, bias: 100 }] } };

async function grpcAddress(): Promise<string> {
  return (await daemon.client.status()).grpc ?? '';
}

/** Reads until `count` texts have arrived. */
async function texts(call: ClientReadableStream<any>, count: number): Promise<void> {
  call.on('error', () => undefined);
  for (let seen = 0; seen < count;) {
    const event = call.read();
    if (event === null) await once(call, 'readable');
    else if (event.event === 'text') seen += 1;
  }
}

async function routerIsIdle(): Promise<void> {
  await waitFor('the router to forget it', async () => (await daemon.client.health()).queue.active === 0);
}

async function engineIsIdle(): Promise<void> {
  await waitFor('the engine to free its cells', async () => {
    const { models, queue } = await daemon.client.health();
    return queue.active === 0 && models.every(({ active, waiting }) => active === 0 && waiting === 0);
  });
}

const json = async (source: string): Promise<HealthRecord> => {
  const { code, stdout, stderr } = await svc(['health', '--source', source, '--json'], { home });
  assert.is(code, 0, stderr);
  return JSON.parse(stdout) as HealthRecord;
};

test('the gRPC address is in status, in daemon.json and in the condition', async () => {
  const address = await grpcAddress();
  assert.match(address, /^127\.0\.0\.1:[1-9]\d+$/);
  const file = JSON.parse(await readFile(join(home.dir, 'state', 'daemon.json'), 'utf8')) as { grpc: string };
  assert.is(file.grpc, address);
  const { conditions } = await daemon.client.health();
  assert.ok(conditions.find(({ name }) => name === 'listeners')?.reason.includes(`grpc ${address}`));
});

test('the health record is the same from every source: fields, order and values', async () => {
  const { http, grpc } = await daemon.client.status();
  const told = (record: HealthRecord): string =>
    JSON.stringify({ ...record, uptime_seconds: typeof record.uptime_seconds });
  // A sample or heartbeat may fall between the reads; then the last record differs from the first.
  const [overHttp, overGrpc, overSocket] = await waitFor('three records of one moment', async () => {
    const first = await probeHttpHealth(http ?? '');
    const others = [await probeGrpcHealth(grpc ?? ''), await daemon.client.health()];
    const isComplete = first.models.length > 0 && first.resources.devices.length > 0;
    const isOneMoment = told(first) === told(await probeHttpHealth(http ?? ''));
    return isComplete && isOneMoment && [first, ...others].map(told);
  });
  assert.is(overGrpc, overHttp);
  assert.is(overSocket, overHttp);
});

test('svc health prints the record from each source', async () => {
  const keys = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.slice(0, 1).map(keys);
    if (value === null || typeof value !== 'object') return null;
    return Object.entries(value).map(([key, each]) => [key, keys(each)]);
  };
  await waitFor('the engine to tell of its steps', async () => (await daemon.client.health()).models[0]?.steps);
  const http = keys(await json('http'));
  assert.equal(keys(await json('grpc')), http);
  assert.equal(keys(await json('socket')), http);
});

test('models and providers are the same records as on the other listeners', async () => {
  const [models, providers] = [await daemon.client.models(), await daemon.client.providers()];
  const listed = (await client.unary('Runtime/ListModels')).models;
  assert.equal(
    listed.map(({ id, default: isDefault, size_bytes, loaded }: any) => [id, isDefault, size_bytes, loaded.pid]),
    models.map(({ id, default: isDefault, size_bytes, loaded }) => [id, isDefault, size_bytes, loaded?.pid]),
  );
  assert.not.ok('path' in listed[0], 'no path leaves the machine');
  assert.equal(
    (await client.unary('Runtime/ListProviders')).providers.map(({ name, state }: any) => [name, state]),
    providers.map(({ name, state }) => [name, state]),
  );
});

test('svc health --watch prints records as they change, from each source, until it is stopped', async () => {
  const watches = ['http', 'grpc', 'socket'].map((source) =>
    spawnSvc(['health', '--watch', '--json', '--source', source], { home }),
  );
  const told = (state: string) => (): boolean =>
    watches.every((watch) => {
      const last = watch.stdout().split('\n').at(-2);
      return last !== undefined && (JSON.parse(last) as HealthRecord).state === state;
    });
  const drain = async (on: boolean): Promise<void> => {
    await ask({ socketPath: daemon.socketPath }, CONTROL_ROUTES.drain, { body: { drain: on } });
  };
  await waitFor('the first record', told('READY'));
  await drain(true);
  await waitFor('the change', told('STOPPING'));
  await drain(false);
  await waitFor('the change back', told('READY'));
  for (const watch of watches) {
    watch.child.kill('SIGKILL');
    await watch.result;
  }
});

test('while only figures change, a watch gets a record now and then, not with each sample', async () => {
  const sequences: number[] = [];
  const watch = client.stream('Runtime/WatchHealth');
  watch.on('error', () => undefined).on('data', ({ sequence }: any) => sequences.push(sequence));
  await waitFor('the record', () => sequences.length === 1);
  const samples = new Set<string>();
  await waitFor('four samples', async () => samples.add((await daemon.client.health()).sampled_at).size >= 4);
  watch.cancel();
  assert.ok(sequences.length <= 2, `told ${String(sequences.length)} times of ${String(samples.size)} samples`);
});

test('a seed gives the same text as over HTTP', async () => {
  const sampling = { seed: 7, temperature: 1 };
  let text = '';
  for await (const event of client.stream('Inference/Generate', { messages, max_tokens: 12, sampling })) {
    text += String(event.text?.text ?? '');
  }
  const { http } = await daemon.client.status();
  const answer = await fetch(`http://${String(http)}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ messages, max_tokens: 12, seed: 7, temperature: 1 }),
  });
  assert.is(text, ((await answer.json()) as any).choices[0].message.content);
});

test('cancel, deadline and a lost connection each stop the generation in the engine', async () => {
  const pid = await enginePid(daemon.client);
  const cancelled = client.stream('Inference/Generate', ENDLESS);
  await texts(cancelled, 1);
  const first = hold(pid);
  cancelled.cancel();
  await routerIsIdle();
  first.release();
  await engineIsIdle();

  // The stopped engine does not see the request before its deadline.
  const second = hold(pid);
  const late = client.stream('Inference/Generate', ENDLESS, { deadline: Date.now() + 2000 });
  assert.is((await failureOf(late)).status, status.DEADLINE_EXCEEDED);
  second.release();
  await engineIsIdle();

  // The client does not read and so does not cancel: the daemon must enforce the deadline itself.
  const unread = client.stream('Inference/Generate', ENDLESS, { deadline: Date.now() + 10_000 });
  await texts(unread, 1);
  const third = hold(pid);
  await routerIsIdle();
  third.release();
  await engineIsIdle();

  // A client of the library lets its calls finish when it is closed, so a raw session is used.
  const session = connectHttp2(`http://${await grpcAddress()}`);
  const lost = session.request({
    ':method': 'POST',
    ':path': '/svc.v1.Inference/Generate',
    'content-type': 'application/grpc',
    te: 'trailers',
  });
  const message = definitions.encode('svc.v1.GenerateRequest', ENDLESS);
  const header = Buffer.alloc(5);
  header.writeUInt32BE(message.length, 1);
  lost.on('error', () => undefined).end(Buffer.concat([header, message]));
  await once(lost, 'data');
  const fourth = hold(pid);
  session.destroy();
  await routerIsIdle();
  fourth.release();
  await engineIsIdle();

  const { http } = await daemon.client.status();
  const page = await (await fetch(`http://${String(http)}/metrics`)).text();
  const count = (code: string): number =>
    Number(new RegExp(`^svc_grpc_calls_total.*/Generate",code="${code}"\\} (\\d+)$`, 'm').exec(page)?.[1] ?? 0);
  // The OK is from the previous test; a deadline counts as a cancel if the client notices it first.
  assert.equal([count('OK'), count('CANCELLED') + count('DEADLINE_EXCEEDED')], [1, 4]);
});

test('the answer follows the format, and probabilities are returned', async () => {
  const schema = JSON.stringify({ type: 'object', properties: { warm: { type: 'boolean' } }, required: ['warm'] });
  const format = { type: 'json_schema', schema };
  let text = '';
  for await (const event of client.stream('Inference/Generate', { messages, format, max_tokens: 40 }))
    text += String(event.text?.text ?? '');
  assert.match(text, /^\{"warm": (true|false)\}$/, text);

  const tokens: { bytes: Buffer; logprob: number; top: unknown[] }[] = [];
  let told = '';
  for await (const event of client.stream('Inference/Generate', { messages, logprobs: 2, max_tokens: 6 })) {
    told += String(event.text?.text ?? '');
    tokens.push(...(event.text?.logprobs ?? []));
  }
  assert.is(Buffer.concat(tokens.map(({ bytes }) => bytes)).toString(), told);
  assert.ok(tokens.length > 0 && tokens.every(({ logprob, top }) => logprob <= 0 && top.length === 2));

  for (const [wrong, param] of [
    [{ type: 'json_schema', schema: '{' }, 'format.schema'],
    [{ type: 'json_schema', schema: '{"not": {}}' }, 'format.schema.not'],
    [{ type: 'grammar', grammar: 'root' }, 'format.grammar'],
    [{ type: 'poem' }, 'format.type'],
  ] as const) {
    const failure = await failureOf(client.stream('Inference/Generate', { messages, format: wrong }));
    assert.is(failure.status, status.INVALID_ARGUMENT);
    assert.is(failure.metadata['param'], param);
  }
});

test('an engine killed mid-stream: the stream fails, and health shows it within a second', async () => {
  const watch = client.stream('Runtime/WatchHealth');
  watch.on('error', () => undefined);
  const states: { state: string; ms: number }[] = [];
  const sinceKill: Stopwatch[] = [];
  watch.on('data', ({ health }: any) => {
    if (states.at(-1)?.state !== health.status) states.push({ state: health.status, ms: sinceKill[0]?.ms() ?? 0 });
  });
  const pid = await enginePid(daemon.client);
  const call = client.stream('Inference/Generate', ENDLESS);
  await texts(call, 1);
  hold(pid);
  sinceKill.push(startStopwatch(daemon.pid));
  process.kill(pid, 'SIGKILL');
  const failure = await failureOf(call);
  assert.equal([failure.status, failure.reason], [status.UNAVAILABLE, 'ENGINE_CRASHED']);
  await waitFor('not ready, then ready again', () => states.length >= 3);
  watch.cancel();
  assert.equal(
    states.map(({ state }) => state),
    ['ready', 'not_ready', 'ready'],
  );
  const { ms } = states[1]!;
  assert.ok(ms < 1000, `it took ${ms.toFixed(0)} ms`);
  for await (const _ of client.stream('Inference/Generate', { messages, max_tokens: 2 }));
});

test('an address in use, or a non-loopback address, is refused', async () => {
  const taken = createServer();
  taken.listen(0, '127.0.0.1');
  await once(taken, 'listening');
  const { port } = taken.address() as AddressInfo;
  for (const [address, message] of [
    [`127.0.0.1:${String(port)}`, /another program listens on 127\.0\.0\.1:\d+/],
    ['0.0.0.0:0', /grpc\.host 0\.0\.0\.0 is reachable from other machines/],
    ['nonsense', /SVC_GRPC_ADDR must be host:port/],
  ] as const) {
    const other = await makeHome();
    const { code, stderr } = await svc(['serve'], { home: other, env: { SVC_GRPC_ADDR: address } });
    assert.is(code, 78, stderr);
    assert.match(stderr, message);
    await other.remove();
  }
  taken.close();
});

test('once a key exists, gRPC requires it like HTTP', async () => {
  const key = (await svc(['key', 'add', 'prober'], { home })).stdout.trim();
  const failure = await failureOf(client.unary('Runtime/GetHealth'));
  assert.equal([failure.status, failure.reason], [status.UNAUTHENTICATED, 'UNAUTHORIZED']);
  const [without, withKey] = await Promise.all(
    [undefined, key].map((SVC_API_KEY) =>
      svc(['health', '--source', 'grpc', '--json'], { home, env: { SVC_API_KEY } }),
    ),
  );
  assert.is(without?.code, 77, without?.stderr);
  assert.is(withKey?.code, 0, withKey?.stderr);
  assertExit(await svc(['key', 'rm', 'prober'], { home }), 0);
  assert.is((await client.unary('Runtime/GetHealth')).status, 'ready');
});

test('an immediate stop ends running calls with NOT_READY', async () => {
  const other = await makeHome();
  configure(other, LONG_CONTEXT);
  const second = await spawnDaemon(other).settled();
  const { grpc } = await second.client.status();
  const speaker = connectTo(grpc ?? '');
  const pid = await enginePid(second.client);
  const call = speaker.stream('Inference/Generate', ENDLESS);
  await texts(call, 1);
  hold(pid);
  const [failure, stopped] = await Promise.all([failureOf(call), svc(['stop', '--force'], { home: other })]);
  assert.equal([failure.status, failure.reason], [status.UNAVAILABLE, 'NOT_READY']);
  assertExit(stopped, 0);
  assert.is((await second.exit).code, 0);
  assert.equal(second.stray, []);
  // Its engine was ended in the middle of an answer, but as it was asked to.
  const log = await readFile(join(other.dir, 'state', 'daemon.log'), 'utf8');
  const records = log
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as { level: string; msg: string });
  const ends = records.filter(({ msg }) => msg === 'engine ended').map(({ level }) => level);
  assert.equal([...new Set(ends)], ['info']);
  speaker.close();
  await other.remove();
});

test('no prompt appears in the log', async () => {
  const log = await readFile(join(home.dir, 'state', 'daemon.log'), 'utf8');
  assert.ok(log.includes('/svc.v1.Inference/Generate'));
  for (const word of ['Tell me about llamas', 'logit_bias']) assert.not.ok(log.includes(word), word);
});

test('stop: first NOT_SERVING, then generations may finish, then every watch ends', async () => {
  const { path, requestSerialize, responseDeserialize } = healthService['Watch']!;
  const watch = client.client.makeServerStreamRequest(path, requestSerialize, responseDeserialize, { service: '' });
  const seen: string[] = [];
  watch.on('data', ({ status: serving }: any) => seen.push(serving));
  const ended = once(watch, 'error') as Promise<{ code: number }[]>;
  await waitFor('the first status', () => seen.length === 1);
  const pid = await enginePid(daemon.client);
  const call = client.stream('Inference/Generate', { ...ENDLESS, max_tokens: LONG_ANSWER_TOKENS });
  const end = once(call, 'end');
  await texts(call, 1);
  const held = hold(pid);
  const events: string[] = [];
  call.on('data', ({ event }: any) => events.push(event));
  const stopping = svc(['stop'], { home });
  await waitFor('the drain', () => seen.at(-1) === 'NOT_SERVING');
  held.release();
  const [stopped] = await Promise.all([stopping, end]);
  assertExit(stopped, 0);
  assert.is(events.at(-1), 'finish');
  assert.equal(seen, ['SERVING', 'NOT_SERVING']);
  const [error] = await ended;
  assert.is(error?.code, status.UNAVAILABLE);
  assert.is((await daemon.exit).code, 0);
  assert.equal(daemon.stray, []);

  const gone = await svc(['health', '--source', 'grpc', '--json'], { home });
  assertExit(gone, 69);
  assert.is(JSON.parse(gone.stderr).error.code, 'DAEMON_NOT_RUNNING');
});

test.run();

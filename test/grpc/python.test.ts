/** The services with a client in another language: Debian's python3-grpcio, which `.ci/run` installs. */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { spawnDaemon, type DaemonProcess } from '../support/daemon.ts';
import { LONG_CONTEXT } from '../support/hold.ts';
import { configure, makeHome, type Home } from '../support/home.ts';
import { modelPath } from '../support/native-engine.ts';
import { svc } from '../support/svc.ts';
import { waitFor } from '../support/wait.ts';

const run = promisify(execFile);
const PYTHON = '/usr/bin/python3';
const CLIENT = fileURLToPath(new URL('client.py', import.meta.url));

let home: Home;
let daemon: DaemonProcess;
let seen: any;

const isThere = await run(PYTHON, ['-c', 'import grpc, google.protobuf']).then(
  () => true,
  () => false,
);
const check = isThere ? test : test.skip;
if (!isThere) process.stdout.write(`${PYTHON} cannot import grpc: install python3-grpcio and python3-protobuf\n`);

test.before(async () => {
  home = await makeHome();
  if (!isThere) return;
  configure(home, LONG_CONTEXT);
  await svc(['model', 'add', modelPath('tiny-bert'), '--name', 'bert'], { home });
  daemon = await spawnDaemon(home).settled();
  const { grpc } = await daemon.client.status();
  await waitFor('its devices', async () => (await daemon.client.health()).resources.devices.length > 0);
  const { stdout } = await run(PYTHON, [CLIENT, grpc ?? '', 'bert'], { timeout: 180_000 });
  seen = JSON.parse(stdout);
});
test.after(async () => {
  if (isThere) {
    daemon.kill('SIGTERM');
    await daemon.exit;
  }
  await home.remove();
});

test('a Python client that knows only the address can use every service', async () => {
  assert.not.match(await readFile(CLIENT, 'utf8'), /open\(|proto\b.*import|_pb2_grpc|svc_v1/);
});

check('reflection lists the services, and its descriptors are valid protobuf', () => {
  assert.equal(seen.services, ['grpc.health.v1.Health', 'svc.v1.Inference', 'svc.v1.Runtime']);
});

check('health: Check, Watch and List', () => {
  const [SERVING, SERVICE_UNKNOWN] = [1, 3];
  const all = { '': SERVING, 'svc.v1.Runtime': SERVING, 'svc.v1.Inference': SERVING };
  assert.equal([seen.check, seen.check_unknown], [all, 'NOT_FOUND']);
  assert.equal(seen.watch, { '': SERVING, 'svc.v1.Nobody': SERVICE_UNKNOWN });
  assert.equal(seen.list, all);
});

check('the health record is the same as over HTTP', async () => {
  const over = await daemon.client.health();
  // A figure may be known in one record and still null in the other.
  const shape = (value: any): any => {
    if (Array.isArray(value)) return value.slice(0, 1).map(shape);
    if (value === null || typeof value !== 'object') return true;
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, key === 'steps' ? true : shape(each)]));
  };
  assert.equal(shape(seen.health), shape(over));
  assert.equal([seen.health.pid, seen.health.started_at], [over.pid, over.started_at]);
  assert.is(seen.updates[1], Number(seen.updates[0]) + 1);
  assert.equal(shape(seen.first_update), shape(over));
  assert.equal(
    seen.models.map(({ id }: any) => id),
    ['builtin', 'bert'],
  );
  assert.equal(
    seen.providers.map(({ name }: any) => name),
    ['local'],
  );
});

check('an answer arrives event by event', () => {
  const { events, finish, start, text } = seen;
  assert.equal(events.slice(0, 3), ['route', 'start', 'text']);
  assert.is(events.at(-1), 'finish');
  assert.equal([start.model, finish.reason, finish.usage.output_tokens], ['builtin', 'length', 8]);
  assert.ok(text.length > 0);
});

check('embeddings of a text and of its tokens are equal', () => {
  const { model, embeddings, usage } = seen.embedded;
  const [text, tokens] = embeddings.map(({ values }: { values: number[] }) => values) as [number[], number[]];
  const cosine = text.reduce((sum, value, index) => sum + value * (tokens[index] ?? 0), 0);
  assert.equal([model, text.length, usage.input_tokens], ['bert', 64, 8]);
  assert.ok(Math.abs(cosine - 1) < 1e-3, String(cosine));
  assert.equal([seen.embed_refused.status, seen.embed_refused.reason], ['INVALID_ARGUMENT', 'INVALID_REQUEST']);
});

check('errors contain the code', () => {
  const { refused, invalid } = seen;
  assert.equal(
    [refused.status, refused.details_code, refused.reason, refused.domain],
    ['NOT_FOUND', 5, 'MODEL_NOT_FOUND', 'svc'],
  );
  assert.match(refused.metadata.request_id, /^[0-9a-f]{32}$/);
  assert.equal([invalid.status, invalid.reason], ['INVALID_ARGUMENT', 'INVALID_REQUEST']);
});

check('a deadline and a cancel reach the engine', () => {
  assert.equal([seen.deadline, seen.idle_after_deadline], ['DEADLINE_EXCEEDED', true]);
  assert.equal([seen.active_before_cancel, seen.idle_after_cancel], [1, true]);
});

test.run();

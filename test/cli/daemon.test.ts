/** Starting, querying and stopping the daemon from the CLI. */
import { createServer } from 'node:net';
import { once } from 'node:events';
import { join } from 'node:path';
import * as assert from 'uvu/assert';
import type { DoctorRecord } from '../../src/protocol/doctor.ts';
import type { HealthRecord, ModelRecord, StatusRecord } from '../../src/protocol/records.ts';
import { assertExit } from '../support/exit.ts';
import { configure } from '../support/home.ts';
import { spawnSvc, svc, type SvcResult } from '../support/svc.ts';
import { svcSuite } from '../support/svc-suite.ts';
import { waitFor } from '../support/wait.ts';

const test = svcSuite('daemon');

/** Parses the output of a command. REQUIRES: the command printed JSON of this type. */
// eslint-disable-next-line @typescript-eslint/no-unnecessary-type-parameters
const parsed = <Value>({ stdout }: SvcResult): Value => JSON.parse(stdout) as Value;

/** Replaces measured values, which differ between two successive records. */
function shapeOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(shapeOf);
  if (typeof value === 'string') return value.replace(/\d+/g, '#');
  // null means not measured yet, which may differ between samples too.
  if (typeof value === 'number' || value === null) return 'figure';
  if (typeof value !== 'object') return typeof value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, shapeOf(inner)]));
}

test('start, status, health and stop', async ({ run, home }) => {
  const started = await run('start', '--json', '--timeout', '150s');
  assertExit(started, 0);
  const { already_running, ...record } = parsed<StatusRecord & { already_running: boolean }>(started);
  assert.is(already_running, false);
  // It serves. On a machine under heavy load a file system may seem to stand still for a second, which is a warning.
  assert.ok(['READY', 'DEGRADED'].includes(record.state), started.stdout);
  await waitFor('READY', async () => parsed<StatusRecord>(await run('status', '--json')).state === 'READY');
  assert.is(record.mode, 'background');
  assert.match(record.http ?? '', /^127\.0\.0\.1:\d+$/);

  const again = await run('start', '--timeout', '150s');
  assertExit(again, 0);
  assert.match(again.stdout, new RegExp(`already running \\(pid ${String(record.pid)}\\)`));

  const status = await run('status', '--json');
  assertExit(status, 0);
  assert.is(parsed<StatusRecord>(status).pid, record.pid);
  assert.match((await run('status')).stdout, /^state: +READY$/m);

  const steps = async (): Promise<unknown> => parsed<HealthRecord>(await run('health', '--json')).models[0]?.steps;
  await waitFor('the engine to tell of its steps', steps);
  const [http, socket] = [await run('health', '--json'), await run('health', '--source', 'socket', '--json')];
  assertExit(http, 0);
  assertExit(socket, 0);
  const records = [http, socket].map((result) => ({ ...parsed<HealthRecord>(result), sampled_at: '' }));
  assert.equal(shapeOf(records[0]), shapeOf(records[1]));
  assert.match((await run('health')).stdout, /^ok +engine/m);

  const doctor = parsed<DoctorRecord>(await run('doctor', '--json'));
  const verdicts = new Map(doctor.checks.map((check) => [check.name, check]));
  for (const name of ['daemon', 'control_socket', 'http', 'log'] as const)
    assert.is(verdicts.get(name)?.status, 'ok', name);
  assert.match(verdicts.get('default_model')?.detail ?? '', /in the daemon/);

  assert.match((await run('logs', '--tail', '1000')).stdout, /"mode":"background"/);
  const following = spawnSvc(['logs', '-f', '--tail', '0'], { home });
  await waitFor('a line of the log', async () => {
    await run('model', 'unload', 'builtin');
    await run('model', 'load', 'builtin');
    return following.stdout().includes('builtin');
  });
  following.child.kill('SIGINT');
  assert.is((await following.result).signal, 'SIGINT');

  const stop = await run('stop');
  assertExit(stop, 0);
  assert.is(stop.stdout, 'svc has stopped\n');
  const after = await run('status', '--json');
  assertExit(after, 3);
  assert.is(parsed<StatusRecord>(after).last_exit?.code, 0);
});

test('models are loaded and unloaded in the daemon; an added model is available at once', async ({ run, home }) => {
  assertExit(await run('start', '--timeout', '150s'), 0);
  const path = parsed<ModelRecord>(await run('model', 'show', 'builtin', '--json')).path;
  assertExit(await run('model', 'add', path, '--name', 'mine'), 0);
  const load = await run('model', 'load', 'mine', '--json');
  assertExit(load, 0);
  const events = load.stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as { type: string; model?: string });
  assert.is(events.at(-1)?.type, 'loaded');
  assert.is(events.at(-1)?.model, 'mine');
  const loaded = parsed<ModelRecord>(await run('model', 'show', 'mine', '--json'));
  assert.is(loaded.state, 'loaded');
  assert.ok(loaded.loaded !== null && loaded.loaded.pid > 0);

  const answer = await svc(['run', '-m', 'mine', '--max-tokens', '4', '--json', 'hi'], { home });
  assert.is((JSON.parse(answer.stdout) as { model: string }).model, 'mine');
  assert.not.match(answer.stderr, /built-in/);

  assert.is((await run('model', 'unload', 'mine')).stdout, 'unloaded mine\n');
  assert.is(parsed<ModelRecord>(await run('model', 'show', 'mine', '--json')).state, 'installed');
  assertExit(await run('model', 'load', 'mine'), 0);
  assertExit(await run('model', 'rm', 'mine'), 0);
  await waitFor('its engine to end', async () => {
    const { models } = parsed<StatusRecord>(await run('status', '--json'));
    return models.every((model) => model.id !== 'mine');
  });
});

test('two concurrent starts both succeed and leave one daemon', async ({ run }) => {
  const [a, b] = await Promise.all([
    run('start', '--json', '--timeout', '150s'),
    run('start', '--json', '--timeout', '150s'),
  ]);
  assertExit(a, 0);
  assertExit(b, 0);
  assert.is(parsed<StatusRecord>(a).pid, parsed<StatusRecord>(b).pid);
});

test('a daemon that exits during startup is reported at once, with its last log lines', async ({ run, home }) => {
  configure(home, '{ "htp": {} }');
  const startedAt = performance.now();
  const result = await run('start', '--timeout', '150s');
  assertExit(result, 1);
  assert.ok(performance.now() - startedAt < 120_000, 'not when its time is over');
  assert.match(result.stderr, /^svc: the daemon ended as it started \(exit code 78\): .*unknown key "htp"\nhint: /m);
  const json = await run('start', '--json', '--timeout', '150s');
  const { error } = JSON.parse(json.stderr) as { error: { message: string } };
  assert.match(error.message, /unknown key "htp"/);
  assert.match((await run('logs')).stderr, /also wrote to standard error/);
});

test('a port that is in use is named in the error', async ({ home }) => {
  const other = createServer().listen(0, '127.0.0.1');
  await once(other, 'listening');
  const { port } = other.address() as { port: number };
  try {
    const result = await svc(['start', '--timeout', '150s'], {
      home,
      env: { SVC_HTTP_ADDR: `127.0.0.1:${String(port)}` },
    });
    assertExit(result, 1);
    assert.match(result.stderr, new RegExp(String(port)));
    for (const [command, code] of [
      ['start', 1],
      ['run', 78],
    ] as const) {
      const { stderr, ...json } = await svc([command, '--json', ...(command === 'run' ? ['hi'] : [])], {
        home,
        env: { SVC_HTTP_ADDR: `127.0.0.1:${String(port)}` },
      });
      assertExit({ stderr, ...json }, code);
      assert.is((JSON.parse(stderr) as { error: { code: string } }).error.code, 'CONFIG_INVALID');
    }
  } finally {
    other.close();
  }
});

test('a daemon without its addon runs, and start reports why it cannot serve', async ({ home }) => {
  const result = await svc(['start', '--timeout', '150s', '--json'], {
    home,
    env: { SVC_ADDON: join(home.dir, 'none.node') },
  });
  assertExit(result, 1);
  const { error } = JSON.parse(result.stderr) as { error: { message: string; hint: string } };
  assert.match(error.message, /cannot serve.*engine: .*none\.node/);
  const status = await svc(['status'], { home });
  assertExit(status, 4);
  assert.match(status.stdout, /engine: /);
  assertExit(await svc(['health'], { home }), 4);
  const answer = await svc(['run', 'hi'], { home });
  assertExit(answer, 69);
});

test('a daemon that hangs counts as not ready, and stop kills it', async ({ run }) => {
  const started = parsed<StatusRecord>(await run('start', '--json', '--timeout', '150s'));
  const pid = started.pid as number;
  process.kill(pid, 'SIGSTOP');
  const status = await run('status', '--json');
  assertExit(status, 4);
  assert.match(status.stderr, /does not answer/);
  const stop = await run('stop');
  assertExit(stop, 124);
  assert.match(stop.stderr, /killing it/);
  assertExit(await run('status'), 3);
  assert.match(parsed<StatusRecord>(await run('status', '--json')).last_exit?.reason ?? '', /unexpectedly/);
});

test.run();

import { existsSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { once } from 'node:events';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import * as assert from 'uvu/assert';
import { readDaemonFile } from '../../src/home/daemon-file.ts';
import { lastExit } from '../../src/home/last-exit.ts';
import { given } from '../../src/protocol/given.ts';
import type { LogRecord } from '../../src/protocol/logs.ts';
import type { HealthRecord, ReadyRecord } from '../../src/protocol/records.ts';
import { ask } from '../http/ask.ts';
import { compiled } from '../support/compiled.ts';
import { daemonSuite, startIn, type DaemonContext } from '../support/daemon-suite.ts';
import { readyStatus, turnsOf, type DaemonProcess, type DaemonProcessOptions } from '../support/daemon.ts';
import type { Home } from '../support/home.ts';
import { startStopwatch } from '../support/stopwatch.ts';
import { waitFor } from '../support/wait.ts';
import { answerTo, type Answer } from './answer.ts';

const entry = compiled(fileURLToPath(new URL('scripted-daemon.ts', import.meta.url)));

const test = daemonSuite('life');

function start(context: DaemonContext, options: DaemonProcessOptions = {}): DaemonProcess {
  return startIn(context, { entry, args: [], ...options });
}

function file(home: Home, name: string): string {
  return join(home.dir, 'state', name);
}

function generate(daemon: DaemonProcess, ticks: number, model?: string, onText?: () => void): Promise<Answer> {
  const messages = [{ role: 'user' as const, content: 'go' }];
  return answerTo(daemon, { messages, max_tokens: ticks, ...given({ model }) }, onText);
}

/** Starts a generation; resolves, once its first text has arrived, with the promise of the whole answer. */
async function generating(daemon: DaemonProcess, ticks: number, model?: string): Promise<{ answer: Promise<Answer> }> {
  let begun: () => void = () => undefined;
  const first = new Promise<void>((resolve) => (begun = resolve));
  const answer = generate(daemon, ticks, model, begun);
  await first;
  return { answer };
}

test('a daemon starts, becomes ready, reports its addresses, and leaves only its state files', async (context) => {
  const daemon = await start(context).settled();
  const { client, socketPath, pid } = daemon;
  const status = await readyStatus(client);
  assert.is(status.pid, pid);
  assert.is(status.mode, 'foreground');
  assert.is(status.last_exit, null);
  assert.is(statSync(socketPath).mode & 0o777, 0o600);
  assert.is(statSync(join(socketPath, '..')).mode & 0o777, 0o700);

  const port = Number(status.http?.split(':')[1]);
  assert.ok(port > 0);
  assert.is((await ask({ port }, '/readyz')).status, 200);
  assert.is((await ask({ port }, '/control/status')).status, 404);

  const record = readDaemonFile(file(context.home, 'daemon.json'));
  assert.is(record?.pid, pid);
  assert.is(record?.http, status.http);
  assert.is(record?.exit, null);

  await client.stop(1000);
  assert.equal(await daemon.exit, { code: 0, signal: null });
  assert.equal(readdirSync(join(context.home.dir, 'run')), []);
  assert.equal(readdirSync(join(context.home.dir, 'state')).sort(), ['daemon.json', 'daemon.log']);
  assert.equal(daemon.stray, []);
  const exit = lastExit(file(context.home, 'daemon.json'));
  assert.equal({ code: exit?.code, reason: exit?.reason }, { code: 0, reason: 'svc stop' });
});

test('the health record holds measured figures', async (context) => {
  const daemon = await start(context).settled();
  const health = await waitFor<HealthRecord | false>('a second sample', async () => {
    const record = await daemon.client.health();
    return record.resources.cpu_percent !== null && record.reason === null && record;
  });
  assert.is(health.status, 'ready');
  assert.is(health.pid, daemon.pid);
  assert.ok((health.resources.cpu_percent ?? -1) >= 0);
  const rss = Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${String(daemon.pid)}/status`, 'utf8'))?.[1]) * 1024;
  assert.ok(
    Math.abs((health.resources.rss_bytes ?? 0) - rss) < rss / 2,
    `${String(health.resources.rss_bytes)} against ${String(rss)}`,
  );
  assert.ok((health.resources.system_memory_available_bytes ?? 0) > 0);
  assert.equal(health.queue, { waiting: 0, active: 0, limit: 256 });
  assert.ok(health.uptime_seconds > 0 && health.uptime_seconds < 60);
});

test('the log file and standard error have the same lines', async (context) => {
  const daemon = await start(context).settled();
  await daemon.client.stop(0);
  await daemon.exit;
  const lines = readFileSync(file(context.home, 'daemon.log'), 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as LogRecord);
  assert.equal(lines, daemon.log);
  assert.is(lines.at(-1)?.msg, 'stopped');
});

test('a second daemon in the same home is refused, and the first is not disturbed', async (context) => {
  const first = await start(context).settled();
  const second = start(context);
  assert.is((await second.exit).code, 1);
  assert.match(second.stray.join('\n'), `svc is already running (pid ${String(first.pid)})`);
  assert.is((await first.client.status()).pid, first.pid);
  assert.is(readDaemonFile(file(context.home, 'daemon.json'))?.pid, first.pid);
});

test('another socket path does not allow a second daemon in the same home', async (context) => {
  await start(context).settled();
  const second = start(context, { env: { SVC_SOCKET: join(context.home.dir, 'other.sock') } });
  assert.is((await second.exit).code, 1);
  assert.match(second.stray.join('\n'), 'already running');
});

test('of many daemons started at once exactly one stays', async (context) => {
  const all = Array.from({ length: 5 }, () => start(context));
  const codes: (number | null)[] = [];
  for (const daemon of all)
    void daemon.exit.then(
      ({ code }) => codes.push(code),
      () => undefined,
    );
  await waitFor('four to give up', () => codes.length === 4);
  assert.equal(codes, [1, 1, 1, 1]);
  const { pid } = await (all[0] as DaemonProcess).client.status();
  assert.is(all.filter((daemon) => daemon.pid === pid).length, 1);
});

test('after kill -9 the next start takes over the stale socket and reports the crash', async (context) => {
  const first = await start(context).settled();
  first.kill('SIGKILL');
  await first.exit;
  assert.ok(existsSync(first.socketPath), 'the dead socket is still there');
  const second = await start(context).settled();
  const { last_exit } = await second.client.status();
  assert.is(last_exit?.code, null);
  assert.match(last_exit?.reason ?? '', 'crash');
  assert.ok(Math.abs(Date.parse(last_exit?.at ?? '') - Date.now()) < 60_000);
  assert.ok(second.log.some(({ level, msg }) => level === 'warn' && msg.includes('did not exit cleanly')));
});

test('a start that died while holding the lock delays the next one only until the lock is stale', async (context) => {
  const first = await start(context).settled();
  first.kill('SIGKILL');
  await first.exit;
  const lock = join(context.home.dir, 'state', 'start.lock');
  mkdirSync(lock);
  const second = await start(context).settled();
  await readyStatus(second.client);
  assert.not.ok(existsSync(lock));
});

test('a regular file at the socket path is not removed', async (context) => {
  const socketPath = join(context.home.dir, 'precious');
  writeFileSync(socketPath, 'data');
  const daemon = start(context, { env: { SVC_SOCKET: socketPath } });
  assert.is((await daemon.exit).code, 78);
  assert.is(readFileSync(socketPath, 'utf8'), 'data');
});

test('a port in use fails the start with one sentence, and the socket is removed again', async (context) => {
  const other = createServer().listen(0, '127.0.0.1');
  await once(other, 'listening');
  const address = other.address() as { port: number };
  try {
    const daemon = start(context, { env: { SVC_HTTP_ADDR: `127.0.0.1:${String(address.port)}` } });
    assert.is((await daemon.exit).code, 78);
    assert.match(daemon.stray.join('\n'), `another program listens on 127.0.0.1:${String(address.port)}`);
    assert.not.ok(existsSync(daemon.socketPath));
    const exit = lastExit(file(context.home, 'daemon.json'));
    assert.is(exit?.code, 78);
    assert.match(exit?.reason ?? '', 'could not start');
  } finally {
    other.close();
  }
});

test('a non-loopback address is refused', async (context) => {
  const daemon = start(context, { env: { SVC_HTTP_ADDR: '0.0.0.0:0' } });
  assert.is((await daemon.exit).code, 78);
  assert.match(daemon.stray.join('\n'), 'no API key');
});

test('an invalid config fails the start and is reported with its place', async (context) => {
  const config = join(context.home.dir, 'bad.json');
  writeFileSync(config, '{\n  "htp": {}\n}');
  const daemon = start(context, { env: { SVC_CONFIG: config } });
  assert.is((await daemon.exit).code, 78);
  assert.match(daemon.stray.join('\n'), `${config}:2:3: unknown key "htp"`);
});

test('SIGTERM drains: not ready at once, new requests are rejected, running ones may finish', async (context) => {
  const daemon = await start(context).settled();
  const { answer } = await generating(daemon, 10_000);
  daemon.kill('SIGTERM');
  const ready = await waitFor<ReadyRecord | false>('readiness to turn', async () => {
    const record = await daemon.client.ready();
    return record.state === 'STOPPING' && record;
  });
  assert.is(ready.status, 'not_ready');
  const livez = await ask({ socketPath: daemon.socketPath }, '/livez');
  assert.is(livez.status, 200);
  assert.equal(await generate(daemon, 1), { text: '', end: 'NOT_READY' });
  daemon.send({ finish: true });
  const { text, end } = await answer;
  assert.match(text, /^(tick )+$/);
  assert.is(end, 'finish');
  assert.equal(await daemon.exit, { code: 0, signal: null });
  assert.is(lastExit(file(context.home, 'daemon.json'))?.signal, 'SIGTERM');
});

test('at the drain deadline running generations end with an error event, never with finish', async (context) => {
  const daemon = await start(context).settled();
  const { answer } = await generating(daemon, 10_000);
  await daemon.client.stop(300);
  const began = performance.now();
  const { text, end } = await answer;
  assert.is(end, 'NOT_READY');
  assert.ok(text.length > 0);
  assert.ok(performance.now() - began < 60_000, 'not the 200 seconds of the generation');
  assert.is((await daemon.exit).code, 0);
});

test('a second signal ends the daemon immediately', async (context) => {
  const daemon = await start(context).settled();
  const { answer } = await generating(daemon, 10_000);
  daemon.kill('SIGTERM');
  await waitFor('the drain', () => daemon.log.some(({ msg }) => msg.startsWith('waiting')));
  const began = performance.now();
  daemon.kill('SIGTERM');
  assert.is((await answer).end, 'NOT_READY');
  assert.is((await daemon.exit).code, 0);
  assert.ok(performance.now() - began < 25_000, 'not the 30 seconds of the drain');
});

test('a generation that ignores its abort cannot keep the daemon alive', async (context) => {
  const daemon = await start(context).settled();
  const { answer } = await generating(daemon, 10_000, 'deaf');
  const began = performance.now();
  await daemon.client.stop(0);
  assert.is.not((await answer).end, 'finish');
  assert.is((await daemon.exit).code, 0);
  assert.ok(performance.now() - began < 60_000, 'not the 200 seconds of the generation');
});

test('a stop during startup takes effect', async (context) => {
  const daemon = await start(context).answering();
  daemon.kill('SIGINT');
  assert.equal(await daemon.exit, { code: 0, signal: null });
  assert.not.ok(existsSync(daemon.socketPath));
});

test('a bug shuts the daemon down cleanly, with code 1, and the log names the error', async (context) => {
  for (const [order, name] of [
    ['crash', 'TypeError'],
    ['reject', 'RangeError'],
  ] as const) {
    const daemon = await start(context).settled();
    const { answer } = await generating(daemon, 10_000);
    daemon.send({ [order]: true });
    assert.is((await answer).end, 'NOT_READY');
    assert.is((await daemon.exit).code, 1);
    const fatal = daemon.log.find(({ level }) => level === 'fatal');
    assert.is((fatal?.['err'] as { type: string }).type, name);
    const exit = lastExit(file(context.home, 'daemon.json'));
    assert.is(exit?.code, 1);
    assert.match(exit?.reason ?? '', name);
    assert.not.ok(existsSync(daemon.socketPath));
  }
});

test('after a bug, a generation that finishes soon still completes, and further bugs change nothing', async (context) => {
  const daemon = await start(context).settled();
  const { answer } = await generating(daemon, 100_000);
  for (let i = 0; i < 20; i += 1) daemon.send({ crash: true });
  daemon.send({ finish: true });
  assert.is((await answer).end, 'finish');
  assert.is((await daemon.exit).code, 1);
  assert.is(daemon.log.filter(({ level }) => level === 'fatal').length, 1);
  assert.is(daemon.log.filter(({ msg }) => msg.includes('another bug')).length, 1, 'one line for those that follow');
});

test('an error that can only come from a connection does not stop the daemon', async (context) => {
  const daemon = await start(context).settled();
  daemon.send({ crash: 'ERR_HTTP2_INVALID_STREAM' });
  await waitFor('its line', () => daemon.log.some(({ msg }) => msg === 'a connection failed'));
  await waitFor('READY', async () => (await daemon.client.ready()).state === 'READY');
  assert.not.ok(daemon.log.some(({ level }) => level === 'fatal'));
});

test('conditions change readiness, and each change is one log line', async (context) => {
  const daemon = await start(context).settled();
  const turn = async (status: string, state: string): Promise<number> => {
    daemon.send({ engine: { status, reason: `because ${status}` } });
    await waitFor(`state ${state}`, async () => {
      const { state: now, conditions } = await daemon.client.ready();
      return now === state && conditions.find(({ name }) => name === 'engine')?.status === status;
    });
    return (await ask({ socketPath: daemon.socketPath }, '/readyz')).status;
  };
  assert.is(await turn('fail', 'DEGRADED'), 503);
  assert.is((await ask({ socketPath: daemon.socketPath }, '/readyz?exclude=engine')).status, 200);
  assert.match((await daemon.client.health()).reason ?? '', 'engine: because fail');
  assert.is(await turn('ok', 'READY'), 200);
  assert.is(await turn('warn', 'DEGRADED'), 200);
  assert.equal(turnsOf(daemon, 'engine'), ['fail', 'ok', 'warn']);
  const states = daemon.log.filter((line) => 'to' in line);
  const before = ['STARTING', ...states.map(({ to }) => to)].slice(0, -1);
  assert.equal(
    states.map(({ from }) => from),
    before,
  );
  assert.ok(states.every(({ from, to }) => from !== to));
});

test('a removed control socket is bound again, and requests over the old one continue', async (context) => {
  const daemon = await start(context).settled();
  const { answer } = await generating(daemon, 10_000);
  for (const remove of [daemon.socketPath, join(context.home.dir, 'run')]) {
    rmSync(remove, { recursive: true });
    const taken = startStopwatch(daemon.pid);
    const status = await waitFor('the socket', () => daemon.client.status());
    assert.ok(taken.ms() < 1500, 'soon');
    assert.is(status.pid, daemon.pid);
    assert.is(statSync(daemon.socketPath).mode & 0o777, 0o600);
  }
  daemon.send({ finish: true });
  assert.is((await answer).end, 'finish');
  await waitFor('both to be told', () => daemon.log.filter(({ msg }) => msg.includes('bound again')).length === 2);
  await waitFor('READY', async () => (await daemon.client.ready()).state === 'READY');
  await daemon.client.stop(0);
  assert.is((await daemon.exit).code, 0);
  assert.not.ok(existsSync(daemon.socketPath));
});

test('a removed control socket does not allow a second daemon', async (context) => {
  const daemon = await start(context).settled();
  for (let round = 0; round < 3; round++) {
    rmSync(daemon.socketPath);
    const second = start(context);
    assert.is((await second.exit).code, 1);
    assert.match(second.stray.join('\n'), `already running (pid ${String(daemon.pid)})`);
  }
  assert.is((await daemon.client.status()).pid, daemon.pid);
});

test('a file that replaced the control socket is left alone and reported', async (context) => {
  const daemon = await start(context).settled();
  const port = Number((await daemon.client.status()).http?.split(':')[1]);
  writeFileSync(`${daemon.socketPath}.new`, 'data');
  renameSync(`${daemon.socketPath}.new`, daemon.socketPath);
  const ready = await waitFor<ReadyRecord | false>('the condition', async () => {
    const record = (await ask({ port }, '/readyz')).json() as ReadyRecord;
    return record.conditions.find(({ name }) => name === 'listeners')?.status === 'warn' && record;
  });
  assert.is(ready.state, 'DEGRADED');
  assert.is(readFileSync(daemon.socketPath, 'utf8'), 'data');
});

test.run();

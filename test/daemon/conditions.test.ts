import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Conditions, judge } from '../../src/daemon/conditions.ts';
import { createLogger, type LogDestination } from '../../src/log/log.ts';
import { CONDITION_NAMES, type CheckStatus, type Condition, type ConditionName } from '../../src/protocol/records.ts';

const SINCE = '2026-01-01T00:00:00.000Z';

function conditions(changes: Partial<Record<ConditionName, CheckStatus>> = {}): Condition[] {
  return CONDITION_NAMES.map((name) => ({ name, status: changes[name] ?? 'ok', reason: `why ${name}`, since: SINCE }));
}

class Lines implements LogDestination {
  readonly records: Record<string, unknown>[] = [];
  write(line: string): void {
    this.records.push(JSON.parse(line) as Record<string, unknown>);
  }
  flushSync(): void {}
  close(): Promise<void> {
    return Promise.resolve();
  }
}

test('all conditions ok: READY, without a reason', () => {
  assert.equal(judge('running', conditions()), { state: 'READY', ready: true, reason: null });
});

test('a warning, or a failure that leaves a usable route: DEGRADED and ready', () => {
  for (const changes of [
    { memory: 'warn' },
    { disk_space: 'fail' },
    { engine: 'warn' },
    { disk_space: 'fail', listeners: 'warn' },
  ] as const) {
    const verdict = judge('running', conditions(changes));
    assert.is(verdict.state, 'DEGRADED');
    assert.is(verdict.ready, true);
    for (const name of Object.keys(changes)) assert.match(verdict.reason ?? '', `${name}: why ${name}`);
  }
});

test('no usable route: DEGRADED and not ready', () => {
  assert.equal(judge('running', conditions({ engine: 'fail' })), {
    state: 'DEGRADED',
    ready: false,
    reason: 'engine: why engine',
  });
  assert.is(judge('running', conditions({ model_store: 'fail' })).ready, false, 'no request finds its model');
});

test('excluded conditions count as ok', () => {
  const failing = conditions({ engine: 'fail', memory: 'warn' });
  assert.equal(judge('running', failing, new Set(['engine', 'memory'])), { state: 'READY', ready: true, reason: null });
  assert.is(judge('running', failing, new Set(['memory'])).ready, false);
});

test('STARTING and STOPPING are never ready, even if all conditions are ok', () => {
  assert.is(judge('starting', conditions()).state, 'STARTING');
  assert.is(judge('starting', conditions()).ready, false);
  assert.is(judge('stopping', conditions()).state, 'STOPPING');
  assert.is(judge('stopping', conditions()).ready, false);
});

test('each condition has exactly one writer', () => {
  const all = new Conditions(createLogger({ level: 'silent' }));
  all.writer('engine');
  assert.throws(() => all.writer('engine'), /has a writer/);
});

test('listeners are called on every change, and not without one', () => {
  let told = 0;
  const all = new Conditions(createLogger({ level: 'silent' }), undefined, () => (told += 1));
  const memory = all.writer('memory');
  memory('ok', '10 MiB');
  memory('ok', '10 MiB');
  assert.is(told, 1);
  memory('ok', '11 MiB');
  all.enter('running');
  all.enter('stopping');
  all.enter('running');
  assert.is(told, 4);
});

test('since is the time of the last status change, not of a reason change', () => {
  let now = 0;
  const all = new Conditions(createLogger({ level: 'silent' }), () => new Date(now));
  const memory = all.writer('memory');
  now = 1000;
  memory('ok', '10 MiB');
  now = 2000;
  memory('ok', '11 MiB');
  assert.equal(all.get('memory'), {
    name: 'memory',
    status: 'ok',
    reason: '11 MiB',
    since: new Date(1000).toISOString(),
  });
  now = 3000;
  memory('warn', '1 MiB');
  assert.is(all.get('memory').since, new Date(3000).toISOString());
});

test('each state change is logged as one line with its reason', () => {
  const out = new Lines();
  const all = new Conditions(createLogger({ destination: out }));
  const write = new Map(CONDITION_NAMES.map((name) => [name, all.writer(name)]));
  for (const set of write.values()) set('ok', 'fine');
  assert.is(out.records.length, 0, 'nothing is said while it starts');
  all.enter('running');
  write.get('engine')?.('fail', 'it crashed');
  write.get('engine')?.('fail', 'it crashed again');
  write.get('engine')?.('ok', 'back');
  all.enter('stopping', 'SIGTERM');
  write.get('engine')?.('fail', 'ended');
  const states = out.records.filter((record) => 'to' in record);
  assert.equal(
    states.map(({ from, to, reason }) => ({ from, to, reason })),
    [
      { from: 'STARTING', to: 'READY', reason: 'all conditions are ok' },
      { from: 'READY', to: 'DEGRADED', reason: 'engine: it crashed' },
      { from: 'DEGRADED', to: 'READY', reason: 'all conditions are ok' },
      { from: 'READY', to: 'STOPPING', reason: 'SIGTERM' },
    ],
  );
});

test('a drain is STOPPING whatever the conditions are, and can be undone until a stop', () => {
  const out = new Lines();
  const all = new Conditions(createLogger({ destination: out }));
  const write = CONDITION_NAMES.map((name) => all.writer(name));
  for (const set of write) set('ok', 'fine');
  all.drain(true);
  all.enter('running');
  assert.equal(all.verdict(), {
    state: 'STOPPING',
    ready: false,
    reason: 'the daemon is draining and refuses new requests',
  });
  write[0]?.('fail', 'gone');
  assert.is(all.verdict().state, 'STOPPING');
  write[0]?.('ok', 'back');
  all.drain(false);
  assert.is(all.verdict().state, 'READY');
  all.drain(true);
  all.enter('stopping', 'SIGTERM');
  all.drain(false);
  assert.is(all.verdict().state, 'STOPPING');
  assert.equal(
    out.records.filter((record) => 'to' in record).map(({ to }) => to),
    ['STOPPING', 'READY', 'STOPPING'],
  );
});

test('a stop cannot be undone', () => {
  const all = new Conditions(createLogger({ level: 'silent' }));
  all.enter('stopping', 'SIGTERM');
  all.enter('running');
  assert.is(all.verdict().state, 'STOPPING');
});

test.run();

/** Log lines of failed requests: clients cannot push older lines out of the log. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import * as assert from 'uvu/assert';
import { FailureLog, type FailureLimits } from '../../src/daemon/request-log.ts';
import { addKey } from '../../src/home/key-file.ts';
import { createLogger } from '../../src/log/log.ts';
import type { Caller } from '../../src/protocol/caller.ts';
import { SvcError } from '../../src/protocol/errors.ts';
import { connectTo } from '../grpc/scripted.ts';
import { ask } from '../http/ask.ts';
import { compiled } from '../support/compiled.ts';
import { daemonSuite, startIn } from '../support/daemon-suite.ts';
import { waitFor } from '../support/wait.ts';

type Line = Readonly<Record<string, unknown>>;

const test = daemonSuite('request log');
const entry = compiled(fileURLToPath(new URL('scripted-daemon.ts', import.meta.url)));
const WRONG = new SvcError('INVALID_REQUEST', 'wrong');
const alice: Caller = { kind: 'key', name: 'alice', address: '10.0.0.1', scope: 'local' };
const bob: Caller = { ...alice, name: 'bob' };

function record(limits: Partial<FailureLimits>): { readonly lines: Line[]; readonly failures: FailureLog } {
  const lines: Line[] = [];
  const log = createLogger({
    destination: {
      write: (line) => void lines.push(JSON.parse(line) as Line),
      flushSync: () => undefined,
      close: () => Promise.resolve(),
    },
  });
  return { lines, failures: new FailureLog(log, { perMinuteOfOne: 0, perMinuteOfAll: 0, ...limits }) };
}

test('a client has its share of lines, and the rest is counted by key', async () => {
  const { lines, failures } = record({ ofOne: 3, ofAll: 100, summaryMs: 50 });
  for (let i = 0; i < 10; ++i) failures.write(WRONG, { caller: alice }, { id: i }, 'request failed');
  for (let i = 0; i < 5; ++i) failures.write(WRONG, { caller: bob }, { id: i }, 'request failed');
  for (let i = 0; i < 4; ++i) failures.write(WRONG, { caller: null, address: '10.0.0.1' }, { id: i }, 'request failed');
  assert.is(lines.length, 9);
  const summary = await waitFor('the line that counts', () => lines[9]);
  assert.is(summary['left_out'], 7 + 2 + 1);
  assert.equal(summary['keys'], { alice: 7, bob: 2 });
  failures.close();
  assert.is(lines.length, 10, 'nothing is left to count');
});

test('all clients together have a limit, and get further lines as time passes', async () => {
  const { lines, failures } = record({ ofOne: 3, ofAll: 5, perMinuteOfAll: 60_000 / 20, perMinuteOfOne: 60_000 });
  const fail = (address: string): void => failures.write(WRONG, { caller: null, address }, {}, 'request failed');
  for (let i = 0; i < 2000; ++i) fail(`10.0.${String(i >> 8)}.${String(i & 255)}`);
  assert.ok(lines.length < 1000, String(lines.length));
  const before = lines.length;
  await waitFor('another line', () => {
    fail('10.0.0.1');
    return lines.length > before;
  });
  failures.close();
  assert.match(String(lines.at(-1)?.['msg']), /without a line of their own/);
});

test('warnings that clients can cause share the allowance of failures', () => {
  const { lines, failures } = record({ ofOne: 2, ofAll: 100 });
  failures.write(WRONG, { caller: alice }, {}, 'request failed');
  for (let i = 0; i < 10; ++i) failures.warn({ caller: alice }, { id: i }, 'the answer repeats itself');
  failures.close();
  assert.equal(
    lines.map(({ id, left_out, keys }) => id ?? left_out ?? keys),
    [undefined, 0, 9],
  );
});

test('failures of the daemon itself always have a line', () => {
  const { lines, failures } = record({ ofOne: 1, ofAll: 1 });
  for (const code of ['INVALID_REQUEST', 'INTERNAL', 'ENGINE_CRASHED', 'CANNOT_WRITE', 'INTERNAL'] as const) {
    failures.write(new SvcError(code, 'x'), { caller: alice }, {}, 'request failed');
  }
  assert.is(lines.length, 5);
});

test('thousands of failing requests over HTTP and gRPC leave earlier lines in the log', async (context) => {
  const daemon = startIn(context, { entry, args: [] });
  await daemon.settled();
  const { http, grpc } = await daemon.client.status();
  const port = Number(http?.split(':').at(-1));
  const { key } = await addKey(join(context.home.dir, 'data', 'keys.json'), 'mallory', 'local');
  const failing = { headers: { authorization: `Bearer ${key}` }, body: { messages: 'none' } };
  const client = connectTo(grpc ?? '');
  const failures = { http: 0, grpc: 0, refused: 0 };
  try {
    await waitFor('the key to be known', async () => (await ask({ port }, '/v1/models')).status === 401);
    for (let round = 0; round < 60; ++round) {
      await Promise.all(
        Array.from({ length: 20 }, async () => {
          assert.is((await ask({ port }, '/v1/chat/completions', failing)).status, 400);
          failures.http += 1;
          assert.is((await ask({ port }, '/v1/models')).status, 401);
          failures.refused += 1;
          await client.unary('Runtime/GetHealth').then(
            () => assert.unreachable(),
            () => (failures.grpc += 1),
          );
        }),
      );
    }
  } finally {
    client.close();
  }
  daemon.kill('SIGTERM');
  assert.is((await daemon.exit).code, 0);

  const state = join(context.home.dir, 'state');
  const lines = readdirSync(state)
    .filter((name) => name.startsWith('daemon.log'))
    .flatMap((name) => readFileSync(join(state, name), 'utf8').trim().split('\n'))
    .map((line) => JSON.parse(line) as Line);
  const sum = (field: (line: Line) => number): number => lines.reduce((total, line) => total + field(line), 0);
  assert.ok(lines.some(({ msg }) => msg === 'started'));
  const shown = lines.filter(({ msg }) => msg === 'request failed' || msg === 'call failed').length;
  assert.ok(shown < 500, `${String(shown)} lines of failures`);
  const leftOut = sum(({ left_out }) => Number(left_out ?? 0));
  // One request asked whether the key is known; it may have been asked several times.
  const sent = failures.http + failures.grpc + failures.refused;
  assert.ok(
    shown + leftOut >= sent && shown + leftOut < sent + 50,
    `${String(shown)} + ${String(leftOut)}, ${String(sent)}`,
  );
  const ofKey = sum(({ keys }) => (keys as { mallory?: number } | undefined)?.mallory ?? 0);
  assert.ok(ofKey > failures.http - 200 && ofKey < failures.http, `${String(ofKey)} of the key`);
});

test.run();

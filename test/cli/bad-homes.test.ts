/**
 * With an SVC_HOME that svc cannot use, every command exits with 73 or 78, one sentence and a hint, after little more
 * work than `svc version`. None hangs, spins or prints a stack trace.
 */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { DoctorRecord } from '../../src/protocol/doctor.ts';
import {
  BadHomes,
  COMMANDS,
  DOCTOR,
  FULL,
  READING,
  STARTING,
  TIMEOUT_MS,
  UNUSABLE,
  WITHOUT_HOME,
  WRITING,
} from '../support/bad-homes.ts';
import { spawnSvc, svc, type SvcResult } from '../support/svc.ts';

/** CPU time that a refused command may take, in that of `svc version`, a quarter of a second on a slow machine. */
const MOST_VERSIONS = 4;

const homes = new BadHomes();
test.after(() => homes.remove());

let versionTicks = 0;
test.before(async () => {
  const good = homes.path();
  for (let i = 0; i < 3; i += 1) versionTicks = Math.max(versionTicks, (await homes.run(good, 'version')).ticks);
});

/** Asserts that a command failed with one sentence and a hint. */
function assertRefused({ code, signal, stderr }: SvcResult, what: string): void {
  assert.ok(code === 73 || code === 78, `${what}: exit ${String(code)} ${String(signal)}\n${stderr}`);
  assert.match(stderr, /^svc: [^\n]+\nhint: [^\n]+\n$/, what);
}

for (const kind of Object.keys(UNUSABLE)) {
  test(`a home that is ${kind}`, async () => {
    const dir = homes.plant(kind);
    // All commands with the two kinds that differ most; a few typical commands with the others.
    const names = ['a file', 'on procfs'].includes(kind)
      ? COMMANDS
      : ['start', 'serve', 'status', 'run', 'doctor', 'config set', 'model list'];
    for (const name of names) {
      const what = `svc ${name} in a home that is ${kind}`;
      const { result, ticks } = await homes.run(dir, name);
      // Doctor measures the speed of the devices.
      if (name !== DOCTOR)
        assert.ok(ticks <= MOST_VERSIONS * versionTicks, `${what}: ${String(ticks)} of ${String(versionTicks)} ticks`);
      if (WITHOUT_HOME.includes(name)) assert.is(result.code, 0, what);
      else if (name === DOCTOR) assert.is(result.code, 1, `${what}: ${result.stderr}`);
      else assertRefused(result, what);
    }
  });
}

test('doctor names the path in its failed check', async () => {
  for (const kind of Object.keys(UNUSABLE)) {
    const dir = homes.plant(kind);
    const home = { dir, env: { SVC_HOME: dir } };
    const { code, stdout } = await svc(['doctor', '--json', '--offline'], { home: home as never });
    const { ok, checks } = JSON.parse(stdout) as DoctorRecord;
    assert.is(code, 1, kind);
    assert.is(ok, false);
    const paths = checks.find(({ name }) => name === 'paths');
    assert.is(paths?.status, 'fail', kind);
    assert.ok(paths?.detail?.includes(dir), `${kind}: ${String(paths?.detail)}`);
  }
});

test('without SVC_HOME, a HOME that is empty or relative is refused', async () => {
  const dir = homes.path();
  for (const HOME of ['', 'here']) {
    const result = await svc(['config', 'set', 'http.port', '8000'], { home: { dir, env: { HOME } } as never });
    assertRefused(result, `HOME=${HOME}`);
    assert.is(result.code, 78);
    assert.match(result.stderr, HOME === '' ? 'HOME is empty' : 'HOME must be an absolute path, not here');
  }
});

for (const [kind, make] of Object.entries(homes.unwritable)) {
  test(`a home that ${kind}`, async () => {
    const dir = make();
    if (dir === null) {
      console.log(`skipped: this user cannot make a home that ${kind}`);
      return;
    }
    for (const name of [...WRITING, ...(kind === FULL ? [] : STARTING)]) {
      const { result } = await homes.run(dir, name);
      assertLast(result, `svc ${name} in a home that ${kind}`);
      if (kind === FULL) assert.match(result.stderr, 'hint: free space on this disk', name);
    }
    for (const name of READING) {
      const { code, stderr } = (await homes.run(dir, name)).result;
      assert.ok(code === 0 || (name === 'status' && code === 3), `svc ${name}: ${String(code)} ${stderr}`);
    }
    assert.is((await homes.run(dir, DOCTOR)).result.code, 1);
  });
}

/** As `assertRefused`, after the line by which `run` announces that it starts the daemon. */
function assertLast(result: SvcResult, what: string): void {
  assertRefused({ ...result, stderr: result.stderr.replace('svc: starting the daemon\n', '') }, what);
}

test('serve ends on SIGTERM while it starts in an unusable home', async () => {
  for (const kind of Object.keys(UNUSABLE)) {
    const dir = homes.plant(kind);
    const running = spawnSvc(['serve'], { home: { dir, env: { SVC_HOME: dir } } as never, timeoutMs: TIMEOUT_MS });
    running.child.kill('SIGTERM');
    await running.result;
  }
});

test.run();

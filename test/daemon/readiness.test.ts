/** Readiness changes within a second of a fault, and changes back when the fault is repaired. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, renameSync, rmSync, statfsSync } from 'node:fs';
import { join } from 'node:path';
import * as assert from 'uvu/assert';
import { SvcError } from '../../src/protocol/errors.ts';
import type { CheckStatus, ConditionName, ReadyRecord } from '../../src/protocol/records.ts';
import { CONTROL_ROUTES, type DrainRecord } from '../../src/protocol/routes.ts';
import { ask } from '../http/ask.ts';
import { daemonSuite, startIn, type DaemonContext } from '../support/daemon-suite.ts';
import type { DaemonProcess, DaemonProcessOptions } from '../support/daemon.ts';
import { enginePid, hold, LONG_ANSWER_TOKENS, LONG_CONTEXT, LONG_DRAIN_MS, type Held } from '../support/hold.ts';
import { configure } from '../support/home.ts';
import { modelPath } from '../support/native-engine.ts';
import { mountMemoryDisk, unmount } from '../support/memory-disk.ts';
import { startStopwatch } from '../support/stopwatch.ts';
import { waitFor } from '../support/wait.ts';

const WITHIN_MS = 1000;

const test = daemonSuite('readiness');

async function start(context: DaemonContext, options: DaemonProcessOptions = {}): Promise<DaemonProcess> {
  const daemon = startIn(context, options);
  await daemon.settled();
  await waitFor('the daemon to be ready', async () => (await daemon.client.ready()).status === 'ready');
  return daemon;
}

/** Injects a fault, waits for the condition to have the status, checks the delay; returns the status of /readyz. */
async function turn(
  daemon: DaemonProcess,
  plant: () => void,
  name: ConditionName,
  status: CheckStatus,
): Promise<number> {
  plant();
  const taken = startStopwatch(daemon.pid);
  const answer = await waitFor(
    `${name} to be ${status}`,
    async () => {
      const answer = await ask({ socketPath: daemon.socketPath }, '/readyz');
      const { conditions } = answer.json() as ReadyRecord;
      return conditions.find((condition) => condition.name === name)?.status === status && answer;
    },
    { intervalMs: 2 },
  );
  const took = taken.ms();
  assert.ok(took < WITHIN_MS, `${name} turned ${status} after ${took.toFixed(0)} ms`);
  return answer.status;
}

/** Generates until `maxTokens`: a bias forces the same token, so the built-in model never ends earlier. */
async function generates(daemon: DaemonProcess, maxTokens = 4, onText: () => void = () => undefined): Promise<boolean> {
  const request = {
    messages: [{ role: 'user' as const, content: 'go' }],
    max_tokens: maxTokens,
    sampling: { logit_bias: [[100, 100] as [number, number]] },
    stop: [],
  };
  for await (const event of daemon.client.generate(request)) {
    if (event.type === 'text') onText();
    if (event.type === 'finish') return true;
  }
  return false;
}

interface Generating {
  /** Resolves with true if the answer ends with finish. */
  readonly answer: Promise<boolean>;
  /** The engine, stopped in the middle of the generation. */
  readonly held: Held;
}

/** Starts a generation that cannot end before its engine is released; resolves when it has begun. */
async function generating(daemon: DaemonProcess): Promise<Generating> {
  const pid = await enginePid(daemon.client);
  return await new Promise((resolve, reject) => {
    let held: Held | undefined;
    const answer: Promise<boolean> = generates(daemon, LONG_ANSWER_TOKENS, () => {
      if (held !== undefined) return;
      held = hold(pid);
      resolve({ answer, held });
    });
    answer.catch(reject);
  });
}

test('an engine that is killed', async (context) => {
  const daemon = await start(context);
  const pid = (await daemon.client.status()).models[0]?.pid as number;
  assert.is(await turn(daemon, () => process.kill(pid, 'SIGKILL'), 'engine', 'fail'), 503);
  await waitFor('the engine to be back', async () => (await daemon.client.ready()).state === 'READY');
});

test('a removed model store', async (context) => {
  const models = join(context.home.dir, 'models');
  mkdirSync(models);
  const daemon = await start(context);
  const aside = `${models}.aside`;
  assert.is(await turn(daemon, () => renameSync(models, aside), 'model_store', 'fail'), 503);
  assert.match((await daemon.client.health()).reason ?? '', `${models} was removed`);
  assert.is(await turn(daemon, () => renameSync(aside, models), 'model_store', 'ok'), 200);
});

test('a full disk: the daemon reports it, keeps answering, and recovers', async (context) => {
  const state = join(context.home.dir, 'state');
  mkdirSync(state);
  try {
    mountMemoryDisk(state, 'size=200m');
  } catch {
    console.log('skipped: a small file system can be mounted by root alone');
    return;
  }
  context.cleanups.push(() => unmount(state));
  const daemon = await start(context);
  const filler = join(state, 'filler');
  // The daemon may write between the two.
  const fill = (): void => {
    const { bavail, bsize } = statfsSync(state);
    const { status } = spawnSync('fallocate', ['-l', String(bavail * bsize), filler], { stdio: 'ignore' });
    if (status !== 0) fill();
  };
  // With a full disk the local engine still serves: DEGRADED and 200.
  assert.is(await turn(daemon, fill, 'disk_space', 'fail'), 200);
  assert.is((await ask({ socketPath: daemon.socketPath }, '/readyz/disk_space')).status, 503);
  assert.ok(await generates(daemon));
  assert.is(await turn(daemon, () => rmSync(filler), 'disk_space', 'warn'), 200);
  const written = await waitFor('the log to be written again', () => {
    const text = readFileSync(join(state, 'daemon.log'), 'utf8');
    return text.includes('"disk_space","status":"warn"') && text;
  });
  assert.match(written, /"disk_space","status":"fail"/);
});

test('a drain that is undone: daemon and engine stay, running requests end, new ones are rejected meanwhile', async (context) => {
  configure(context.home, LONG_CONTEXT);
  const daemon = await start(context);
  const drain = async (on: boolean): Promise<DrainRecord> =>
    (await ask({ socketPath: daemon.socketPath }, CONTROL_ROUTES.drain, { body: { drain: on } })).json() as DrainRecord;
  const [before] = (await daemon.client.health()).models;
  const { answer, held } = await generating(daemon);
  assert.equal(await drain(true), { draining: true, active: 1, waiting: 0 });
  const ready = await ask({ socketPath: daemon.socketPath }, '/readyz');
  assert.equal([ready.status, (ready.json() as ReadyRecord).state], [503, 'STOPPING']);
  assert.is((await daemon.client.health()).reason, 'the daemon is draining and refuses new requests');
  const refused = await generates(daemon).catch((error: unknown) => error);
  assert.ok(refused instanceof SvcError && refused.code === 'NOT_READY');
  held.release();
  assert.ok(await answer, 'what ran has finished');
  assert.equal(await drain(true), { draining: true, active: 0, waiting: 0 });

  await drain(false);
  await waitFor('READY', async () => (await daemon.client.ready()).state === 'READY');
  assert.ok(await generates(daemon));
  assert.is((await daemon.client.health()).models[0]?.pid, before?.pid);

  // A stop also ends a drained daemon.
  await drain(true);
  await daemon.client.stop(LONG_DRAIN_MS);
  assert.is((await daemon.exit).code, 0);
});

test('a drain', async (context) => {
  configure(context.home, LONG_CONTEXT);
  const daemon = await start(context);
  const { answer, held } = await generating(daemon);
  const taken = startStopwatch(daemon.pid);
  await daemon.client.stop(LONG_DRAIN_MS);
  const ready = await ask({ socketPath: daemon.socketPath }, '/readyz');
  assert.is(ready.status, 503);
  assert.is((ready.json() as ReadyRecord).state, 'STOPPING');
  assert.ok(taken.ms() < WITHIN_MS);
  held.release();
  assert.ok(await answer, 'what ran has finished');
  assert.is((await daemon.exit).code, 0);
});

test('the memory of every engine is measured, and null until then', async (context) => {
  const daemon = await start(context);

  const name = `file:${modelPath('tiny-llama')}`;
  for await (const event of daemon.client.load(name, new AbortController().signal)) assert.ok(event);
  const health = await waitFor('both models', async () => {
    const record = await daemon.client.health();
    return record.models.length === 2 && record.models.every(({ kv_cells_total }) => kv_cells_total !== null) && record;
  });
  let sum = 0;
  for (const { id, pid, rss_bytes, active, waiting } of health.models) {
    const rss = Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${String(pid)}/status`, 'utf8'))?.[1]) * 1024;
    assert.ok(Math.abs((rss_bytes ?? 0) - rss) < rss / 4, `${id}: ${String(rss_bytes)} against ${String(rss)}`);
    assert.equal([active, waiting], [0, 0]);
    sum += rss_bytes ?? 0;
  }
  // The sum comes from another sample than the parts.
  await waitFor('the sum', async () => ((await daemon.client.health()).resources.rss_bytes ?? 0) > sum);

  const before = health.models.find(({ id }) => id === 'builtin');
  assert.is(before?.tokens_per_second, null);
  const rateOf = async (builtin: boolean): Promise<number | null | undefined> => {
    const { models } = await daemon.client.health();
    return models.find(({ id }) => (id === 'builtin') === builtin)?.tokens_per_second;
  };
  // An answer may end before the engine reports it.
  const measured = new AbortController();
  const work = (async () => {
    while (!measured.signal.aborted) assert.ok(await generates(daemon, 4000));
  })();
  assert.ok((await waitFor('a rate', () => rateOf(true))) > 0);
  assert.is(await rateOf(false), null, 'the other does not generate');
  measured.abort();
  await work;
  await waitFor('the rate to be gone with the work', async () => (await rateOf(true)) === null);
});

test.run();

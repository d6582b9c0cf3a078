/** A single engine process, driven by frames. */
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { FromEngine } from '../../src/engine/messages.ts';
import { given } from '../../src/protocol/given.ts';
import { startEngine } from '../support/engine-pipe.ts';
import { waitFor } from '../support/wait.ts';

const MODEL = fileURLToPath(new URL('../../build/models/tiny-llama.gguf', import.meta.url));

async function start() {
  const child = await startEngine();
  const { received, send } = child;
  return {
    ...child,
    ofType: <Type extends FromEngine['type']>(type: Type) =>
      received.filter((message): message is Extract<FromEngine, { type: Type }> => message.type === type),
    load: async (path = MODEL) => {
      send({
        type: 'load',
        model: 'tiny',
        path,
        options: { context_length: 65_536, max_sequences: 64, threads: 1 },
        parentPid: process.pid,
      });
      await waitFor('the load', () => received.some(({ type }) => type === 'loaded' || type === 'failed'));
    },
    generate: (id: number, count?: number) => {
      send({
        type: 'generate',
        request: { id, prompt: 'Hello', ...given({ max_tokens: count }) },
      });
    },
  };
}

type Engine = Awaited<ReturnType<typeof start>>;

function it(what: string, body: (engine: Engine) => Promise<void>): void {
  test(what, async () => {
    const engine = await start();
    try {
      await body(engine);
    } finally {
      engine.kill();
      await engine.ended;
    }
  });
}

it('sends heartbeats before the model is loaded, reports progress, and ends the load with a test token', async (engine) => {
  await engine.load();
  const types = engine.received.map(({ type }) => type);
  assert.is(types[0], 'stats');
  assert.is(engine.ofType('stats')[0]?.stats, null);
  assert.ok(engine.ofType('progress').some(({ fraction }) => fraction === 1));
  const [loaded] = engine.ofType('loaded');
  assert.is(loaded?.info.context_length, 65_536);

  const beat = await waitFor('a heartbeat with figures', () =>
    engine
      .ofType('stats')
      .find(({ stats }) => stats !== null && stats.steps.generated_tokens >= 1 && stats.active === 0),
  );
  assert.ok(beat.rssBytes > 10_000_000);

  await waitFor('a second look at the devices', () => engine.ofType('devices').length >= 2);
  assert.ok(engine.ofType('devices').every(({ devices }) => devices.some(({ type }) => type === 'cpu')));
});

it('the counters of an answer are sent before its end', async (engine) => {
  await engine.load();
  engine.generate(7, 5);
  const end = await waitFor('the finish', () => {
    const at = engine.received.findIndex(
      (message) =>
        message.type === 'step' && message.outputs.some(({ id, finish }) => id === 7 && finish !== undefined),
    );
    return at === -1 ? undefined : at;
  });
  const counted = engine.received.slice(0, end).findLast(({ type }) => type === 'stats');
  assert.ok(counted?.type === 'stats' && counted.stats !== null);
  // The test token of the load is counted too.
  assert.equal([counted.stats.steps.generated_tokens, counted.stats.active], [6, 0]);
});

it('accepts, steps and finishes requests under the ids of the caller', async (engine) => {
  await engine.load();
  engine.generate(7, 5);
  await waitFor('the finish', () => engine.ofType('step').some(({ outputs }) => outputs.some(({ finish }) => finish)));
  assert.equal(
    engine.ofType('accepted').map(({ id }) => id),
    [7],
  );
  const outputs = engine.ofType('step').flatMap((step) => step.outputs);
  assert.ok(outputs.every(({ id }) => id === 7));
  assert.is(outputs.at(-1)?.finish?.usage.output_tokens, 5);
});

it('a cancel that arrives during templating is not lost', async (engine) => {
  await engine.load();
  for (let id = 1; id <= 20; id++) {
    engine.generate(id);
    engine.send({ type: 'cancel', id });
  }
  await waitFor(
    'all to end',
    () => engine.ofType('stats').at(-1)?.stats?.active === 0 && engine.ofType('accepted').length === 20,
  );
  const beats = engine.ofType('stats').length;
  await waitFor('another heartbeat', () => engine.ofType('stats').length > beats);
  assert.is(engine.ofType('stats').at(-1)?.stats?.active, 0);
});

it('a request that the engine rejects gets an error, and the others continue', async (engine) => {
  await engine.load();
  engine.send({ type: 'generate', request: { id: 1, prompt: 'word '.repeat(100_000) } });
  engine.generate(2, 5);
  await waitFor('both to end', () => {
    const ends = engine.ofType('step').flatMap(({ outputs }) => outputs.filter(({ finish, error }) => finish ?? error));
    return ends.length === 2 && ends;
  });
  const errors = engine
    .ofType('step')
    .flatMap(({ outputs }) => outputs.flatMap(({ id, error }) => (error ? { id, ...error } : [])));
  assert.equal(
    errors.map(({ id, code }) => ({ id, code })),
    [{ id: 1, code: 'CONTEXT_OVERFLOW' }],
  );
});

it('pauses computing while its output is not read, and resumes afterwards', async (engine) => {
  if (process.platform !== 'linux') return;
  await engine.load();
  engine.pipe.pause();
  for (let id = 1; id <= 64; id++) engine.generate(id);

  const ticks = async (): Promise<number> => {
    const stat = await readFile(`/proc/${String(engine.pid)}/stat`, 'utf8');
    // The name in parentheses has spaces; utime is the 12th field after it.
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[11]);
  };
  await waitFor('the runner to be held', async () => {
    const before = await ticks();
    await sleep(1000);
    return (await ticks()) - before < 3;
  });
  engine.pipe.resume();
  await sleep(1000); // drains the output that was waiting
  const before = await ticks();
  await waitFor('the runner to go on', async () => (await ticks()) - before > 20);
});

it('close ends the process cleanly, even while it works', async (engine) => {
  await engine.load();
  engine.generate(1);
  await waitFor('a step', () => engine.ofType('step').length > 0);
  engine.send({ type: 'close' });
  assert.equal(await engine.ended, { code: 0, signal: null });
});

it('the process exits when its pipe closes, whatever the runner does', async (engine) => {
  await engine.load();
  for (let id = 1; id <= 8; id++) engine.generate(id);
  await waitFor('a step', () => engine.ofType('step').length > 0);
  engine.pipe.destroy();
  assert.equal(await engine.ended, { code: null, signal: 'SIGKILL' });
});

it('a damaged frame ends the process', async (engine) => {
  engine.pipe.write('this is no frame');
  assert.equal(await engine.ended, { code: null, signal: 'SIGKILL' });
});

it('signals meant for the daemon do not end the process', async (engine) => {
  await engine.load();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.kill(engine.pid, signal);
  engine.generate(1, 3);
  await waitFor('the answer', () => engine.ofType('step').some(({ outputs }) => outputs.some(({ finish }) => finish)));
});

it('a file that is not a model is a failure, not a crash', async (engine) => {
  await engine.load(fileURLToPath(import.meta.url));
  assert.is(engine.ofType('failed')[0]?.error.code, 'MODEL_INVALID');
});

test.run();
